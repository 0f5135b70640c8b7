using System.Text;

namespace MudServer.Softcode;

/// <summary>Several expressions, one after another.</summary>
internal sealed class SequenceExpression(IReadOnlyList<Expression> parts) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output)
    {
        foreach (var part in parts)
            part.Append(evaluation, output);
    }
}
