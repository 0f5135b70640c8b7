using System.Text;

namespace MudServer.Softcode;

/// <summary>A property of the acting player: <c>%#</c>, <c>%n</c> or <c>%l</c>.</summary>
internal sealed class EnactorExpression(char letter) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output) => evaluation.Append(output, Evaluate(evaluation));

    public override string Evaluate(Evaluation evaluation) => letter switch
    {
        'n' => evaluation.Enactor.Name,
        'l' => $"#{evaluation.Enactor.LocationId}",
        _ => evaluation.EnactorReference,
    };
}
