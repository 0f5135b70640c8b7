using System.Globalization;
using System.Text;

namespace MudServer.Softcode;

/// <summary>Functions over lists: words with spaces between them, or another separator.</summary>
internal static class ListFunctions
{
    private const int ComparisonsPerOperation = 500;

    public static IReadOnlyList<SoftcodeFunction> All { get; } =
    [
        new("iter(list,pattern[,separator[,joiner]])", 2, 4, Iter),
        new("lnum(n)", 1, 3, Lnum),
        new("itext(level)", 1, 1, (arguments, output) => Loop(arguments, output, loop => loop.Item)),
        new("inum(level)", 1, 1, (arguments, output) => Loop(arguments, output, loop => loop.Position.ToString(CultureInfo.InvariantCulture))),
        new("words(list[,separator])", 1, 2,
            (arguments, output) => NumberFunctions.AppendNumber(arguments, output, Words(arguments, 1).Length)),
        new("first(list[,separator])", 1, 2, (arguments, output) => Pick(arguments, output, words => words[..1])),
        new("rest(list[,separator])", 1, 2, (arguments, output) => Pick(arguments, output, words => words[1..])),
        new("last(list[,separator])", 1, 2, (arguments, output) => Pick(arguments, output, words => words[^1..])),
        new("shuffle(list[,separator])", 1, 2, (arguments, output) => Pick(arguments, output, words =>
        {
            arguments.Evaluation.Random.Shuffle(words);
            return words;
        })),
    ];

    /// <summary>A list's items. Spaces between words count once; another separator counts each time.</summary>
    public static string[] Split(string list, string separator = " ")
    {
        if (separator is "" or " ")
            return list.Split(' ', StringSplitOptions.RemoveEmptyEntries);
        return list.Length == 0 ? [] : list.Split(separator);
    }

    private static void Iter(FunctionArguments arguments, StringBuilder output)
    {
        var items = Words(arguments, 2);
        var joiner = arguments.OrElse(3, " ");
        var loop = arguments.Evaluation.BeginLoop();
        for (var index = 0; index < items.Length; index++)
        {
            arguments.Evaluation.Budget.Step();
            loop.MoveTo(items[index]);
            if (index > 0)
                arguments.Evaluation.Append(output, joiner);
            arguments.Expression(1).Append(arguments.Evaluation, output);
        }

        arguments.Evaluation.EndLoop();
    }

    private static void Lnum(FunctionArguments arguments, StringBuilder output)
    {
        long first = 0;
        long last;
        var isNumber = arguments.Count == 1
            ? arguments.TryInteger(0, out last)
            : arguments.TryInteger(1, out last) & arguments.TryInteger(0, out first);
        if (!isNumber)
        {
            arguments.Evaluation.Append(output, FunctionArguments.NotANumber);
            return;
        }

        if (arguments.Count == 1)
            last--;
        if (arguments.Count == 1 && last < first)
            return;
        var separator = arguments.OrElse(2, " ");
        Span<char> digits = stackalloc char[20];
        for (var number = first; ; number += Math.Sign(last - first))
        {
            number.TryFormat(digits, out var length, provider: CultureInfo.InvariantCulture);
            arguments.Evaluation.Append(output, digits[..length]);
            if (number == last)
                return;
            arguments.Evaluation.Append(output, separator);
        }
    }

    private static void Loop(FunctionArguments arguments, StringBuilder output, Func<SoftcodeLoop, string> read)
    {
        var isLoop = arguments.TryInteger(0, out var level) & level is >= 0 and <= int.MaxValue;
        var text = isLoop && arguments.Evaluation.TryGetLoop((int)level, out var loop) ? read(loop) : "#-1 NOT IN A LOOP";
        arguments.Evaluation.Append(output, text);
    }

    private static void Pick(FunctionArguments arguments, StringBuilder output, Func<string[], string[]> pick)
    {
        var words = Words(arguments, 1);
        if (words.Length > 0)
            arguments.Evaluation.Append(output, string.Join(arguments.OrElse(1, " "), pick(words)));
    }

    private static string[] Words(FunctionArguments arguments, int separatorIndex)
    {
        var separator = arguments.OrElse(separatorIndex, " ");
        // A long separator that nearly matches everywhere is compared everywhere.
        arguments.Evaluation.Budget.Work((long)arguments[0].Length * separator.Length / ComparisonsPerOperation);
        var words = Split(arguments[0], separator);
        arguments.Evaluation.Budget.Work(3L * words.Length);
        return words;
    }
}
