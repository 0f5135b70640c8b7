using System.Text;

namespace MudServer.Softcode;

/// <summary>A call of a function, which evaluates its arguments when it needs them.</summary>
internal sealed class CallExpression(SoftcodeFunction function, IReadOnlyList<Expression> arguments) : Expression
{
    public override void Append(Evaluation evaluation, StringBuilder output)
    {
        evaluation.Budget.Step();
        function.Body(new FunctionArguments(evaluation, arguments), output);
    }
}
