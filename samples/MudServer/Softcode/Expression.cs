using System.Text;

namespace MudServer.Softcode;

/// <summary>A part of softcode that is parsed once and can be evaluated many times.</summary>
internal abstract class Expression
{
    public abstract void Append(Evaluation evaluation, StringBuilder output);

    public virtual string Evaluate(Evaluation evaluation) => evaluation.Evaluate(this);
}

/// <summary>Text that is appended unchanged.</summary>
internal sealed class LiteralExpression(string text) : Expression
{
    public static LiteralExpression Empty { get; } = new(string.Empty);

    public override void Append(Evaluation evaluation, StringBuilder output) => evaluation.Append(output, text);

    public override string Evaluate(Evaluation evaluation) => text;
}

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

/// <summary>The current item of a loop: <c>##</c> or <c>%i0</c> of the innermost loop, <c>%i1</c> of the loop around it.</summary>
internal sealed class LoopItemExpression(int level, string outsideLoop) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output) => evaluation.Append(output, Evaluate(evaluation));

    public override string Evaluate(Evaluation evaluation) => evaluation.TryGetLoop(level, out var loop) ? loop.Item : outsideLoop;
}

/// <summary>Several expressions, one after another.</summary>
internal sealed class SequenceExpression(IReadOnlyList<Expression> parts) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output)
    {
        foreach (var part in parts)
            part.Append(evaluation, output);
    }
}

/// <summary>A call of a function, which evaluates its arguments when it needs them.</summary>
internal sealed class CallExpression(SoftcodeFunction function, IReadOnlyList<Expression> arguments) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output)
    {
        evaluation.Budget.Step();
        function.Body(new FunctionArguments(evaluation, arguments), output);
    }
}
