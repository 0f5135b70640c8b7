using System.Globalization;
using System.Text;

namespace MudServer.Softcode;

/// <summary>Functions over text.</summary>
internal static class TextFunctions
{
    public static IReadOnlyList<SoftcodeFunction> All { get; } =
    [
        new("cat(a,b,..)", 1, 30, Cat),
        new("strlen(text)", 1, 1, (arguments, output) => NumberFunctions.AppendNumber(arguments, output, arguments[0].Length)),
        new("repeat(text,n)", 2, 2, Repeat),
        new("space(n)", 1, 1, (arguments, output) => Repeat(arguments, output, " ", 0)),
        new("ucstr(text)", 1, 1, (arguments, output) => arguments.Evaluation.Append(output, arguments[0].ToUpper(CultureInfo.InvariantCulture))),
        new("lcstr(text)", 1, 1, (arguments, output) => arguments.Evaluation.Append(output, arguments[0].ToLower(CultureInfo.InvariantCulture))),
        new("capstr(text)", 1, 1, Capitalise),
        new("reverse(text)", 1, 1, Reverse),
    ];

    private static void Cat(FunctionArguments arguments, StringBuilder output)
    {
        for (var index = 0; index < arguments.Count; index++)
        {
            if (index > 0)
                arguments.Evaluation.Append(output, " ");
            arguments.Expression(index).Append(arguments.Evaluation, output);
        }
    }

    private static void Repeat(FunctionArguments arguments, StringBuilder output) => Repeat(arguments, output, arguments[0], 1);

    private static void Repeat(FunctionArguments arguments, StringBuilder output, string text, int countIndex)
    {
        if (!arguments.TryInteger(countIndex, out var count))
        {
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
            return;
        }

        if (text.Length == 0)
            return;
        arguments.Evaluation.Budget.CheckLength(count);
        if (count > 0)
            arguments.Evaluation.Append(output, text, (int)count);
    }

    private static void Capitalise(FunctionArguments arguments, StringBuilder output)
    {
        var text = arguments[0];
        if (text.Length == 0)
            return;
        arguments.Evaluation.Append(output, [char.ToUpper(text[0], CultureInfo.InvariantCulture)]);
        arguments.Evaluation.Append(output, text.AsSpan(1));
    }

    private static void Reverse(FunctionArguments arguments, StringBuilder output)
    {
        var text = arguments[0];
        var reversed = new char[text.Length];
        var place = reversed.Length;
        foreach (var rune in text.EnumerateRunes())
            rune.EncodeToUtf16(reversed.AsSpan(place -= rune.Utf16SequenceLength));
        arguments.Evaluation.Budget.Work(text.Length / 4);
        arguments.Evaluation.Append(output, reversed);
    }
}
