using System.Text;

namespace MudServer.Softcode;

/// <summary>Text that is appended unchanged.</summary>
internal sealed class LiteralExpression(string text) : Expression
{
    public static LiteralExpression Empty { get; } = new(string.Empty);

    public override void Append(Evaluation evaluation, StringBuilder output) => evaluation.Append(output, text);

    public override string Evaluate(Evaluation evaluation) => text;
}
