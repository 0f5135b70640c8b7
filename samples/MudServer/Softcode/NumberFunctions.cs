using System.Globalization;
using System.Text;

namespace MudServer.Softcode;

/// <summary>Functions that calculate.</summary>
internal static class NumberFunctions
{
    public static IReadOnlyList<SoftcodeFunction> All { get; } =
    [
        new("add(a,b,..)", 2, 30, (arguments, output) => Fold(arguments, output, (a, b) => a + b)),
        new("sub(a,b)", 2, 2, (arguments, output) => Fold(arguments, output, (a, b) => a - b)),
        new("mul(a,b,..)", 2, 30, (arguments, output) => Fold(arguments, output, (a, b) => a * b)),
        new("fdiv(a,b)", 2, 2, (arguments, output) => Divide(arguments, output, (a, b) => a / b)),
        new("div(a,b)", 2, 2, (arguments, output) => Divide(arguments, output, (a, b) => Math.Truncate(a / b))),
        new("mod(a,b)", 2, 2, (arguments, output) => Divide(arguments, output, (a, b) => a - (b * Math.Floor(a / b)))),
        new("min(a,b,..)", 1, 30, (arguments, output) => Fold(arguments, output, Math.Min)),
        new("max(a,b,..)", 1, 30, (arguments, output) => Fold(arguments, output, Math.Max)),
        new("abs(a)", 1, 1, (arguments, output) => Fold(arguments, output, (a, _) => a, Math.Abs)),
        new("rand(n)", 1, 2, Rand),
    ];

    public static void AppendNumber(FunctionArguments arguments, StringBuilder output, double number)
    {
        if (!double.IsFinite(number))
        {
            arguments.Evaluation.Append(output, "#-1 NUMBER OUT OF RANGE");
            return;
        }

        var isWhole = number == Math.Floor(number) && Math.Abs(number) < 1e15;
        var rounded = isWhole ? number + 0.0 : Math.Round(number, 6);
        arguments.Evaluation.Append(output, rounded.ToString(isWhole ? "F0" : "R", CultureInfo.InvariantCulture));
    }

    private static void Fold(
        FunctionArguments arguments, StringBuilder output, Func<double, double, double> combine, Func<double, double>? finish = null)
    {
        if (!arguments.TryNumber(0, out var total))
        {
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
            return;
        }

        for (var index = 1; index < arguments.Count; index++)
        {
            if (!arguments.TryNumber(index, out var number))
            {
                arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
                return;
            }

            total = combine(total, number);
        }

        AppendNumber(arguments, output, finish is null ? total : finish(total));
    }

    private static void Divide(FunctionArguments arguments, StringBuilder output, Func<double, double, double> divide)
    {
        if (!arguments.TryNumber(0, out var dividend) || !arguments.TryNumber(1, out var divisor))
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
        else if (divisor == 0)
            arguments.Evaluation.Append(output, "#-1 DIVISION BY ZERO");
        else
            AppendNumber(arguments, output, divide(dividend, divisor));
    }

    private static void Rand(FunctionArguments arguments, StringBuilder output)
    {
        long low = 0;
        var isNumber = arguments.TryInteger(arguments.Count - 1, out var high) && (arguments.Count == 1 || arguments.TryInteger(0, out low));
        if (!isNumber)
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
        else if (arguments.Count == 1 ? high < 1 : high < low)
            arguments.Evaluation.Append(output, "#-1 OUT OF RANGE");
        else
            AppendNumber(arguments, output, arguments.Evaluation.Random.NextInt64(low, arguments.Count == 1 ? high : high + 1));
    }
}
