using System.Text;

namespace MudServer.Softcode;

/// <summary>The current item of a loop: <c>##</c> or <c>%i0</c> of the innermost loop, <c>%i1</c> of the loop around it.</summary>
internal sealed class LoopItemExpression(int level, string outsideLoop) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output) => evaluation.Append(output, Evaluate(evaluation));

    public override string Evaluate(Evaluation evaluation) => evaluation.TryGetLoop(level, out var loop) ? loop.Item : outsideLoop;
}
