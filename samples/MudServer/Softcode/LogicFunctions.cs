using System.Text;

namespace MudServer.Softcode;

/// <summary>Functions that compare and choose.</summary>
internal static class LogicFunctions
{
    public static IReadOnlyList<SoftcodeFunction> All { get; } =
    [
        new("if(condition,then[,else])", 2, 3, Choose),
        new("ifelse(condition,then,else)", 3, 3, Choose),
        new("eq(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a == b)),
        new("neq(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a != b)),
        new("gt(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a > b)),
        new("gte(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a >= b)),
        new("lt(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a < b)),
        new("lte(a,b)", 2, 2, (arguments, output) => Compare(arguments, output, (a, b) => a <= b)),
        new("and(a,b,..)", 2, 30, (arguments, output) => Answer(arguments, output, !Any(arguments, searched: false))),
        new("or(a,b,..)", 2, 30, (arguments, output) => Answer(arguments, output, Any(arguments, searched: true))),
        new("not(a)", 1, 1, (arguments, output) => Answer(arguments, output, !IsTrue(arguments[0]))),
    ];

    /// <summary>MUSH's idea of truth: not empty, not zero, not an error.</summary>
    public static bool IsTrue(string text)
    {
        var trimmed = text.AsSpan().Trim();
        return !trimmed.IsEmpty && trimmed is not "0" && !trimmed.StartsWith("#-1", StringComparison.Ordinal);
    }

    private static void Choose(FunctionArguments arguments, StringBuilder output)
    {
        if (IsTrue(arguments[0]))
            arguments.Expression(1).Append(arguments.Evaluation, output);
        else if (arguments.Count > 2)
            arguments.Expression(2).Append(arguments.Evaluation, output);
    }

    private static void Compare(FunctionArguments arguments, StringBuilder output, Func<double, double, bool> compare)
    {
        if (arguments.TryNumber(0, out var left) && arguments.TryNumber(1, out var right))
            Answer(arguments, output, compare(left, right));
        else
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
    }

    private static bool Any(FunctionArguments arguments, bool searched)
    {
        for (var index = 0; index < arguments.Count; index++)
        {
            if (IsTrue(arguments[index]) == searched)
                return true;
        }

        return false;
    }

    private static void Answer(FunctionArguments arguments, StringBuilder output, bool isTrue) =>
        arguments.Evaluation.Append(output, isTrue ? "1" : "0");
}
