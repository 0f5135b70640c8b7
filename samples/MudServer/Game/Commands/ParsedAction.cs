using MudServer.Softcode;

namespace MudServer.Game.Commands;

/// <summary>One command of an action list. Its parts are parsed when they are first needed, and kept for the next round of the loop.</summary>
internal sealed class ParsedAction
{
    private readonly FunctionTable _functions;
    private readonly SoftcodeBudget _budget;
    private readonly int _equals;
    private Expression? _argument;
    private Expression? _left;
    private Expression? _right;
    private IReadOnlyList<ParsedAction>? _rightActions;

    private ParsedAction(string word, string rest, FunctionTable functions, SoftcodeBudget budget)
    {
        Word = word;
        Rest = rest;
        _functions = functions;
        _budget = budget;
        _equals = CommandText.IndexOf(rest, '=');
    }

    public string Word { get; }

    public string Rest { get; }

    /// <summary>True when the word is only known when it is evaluated, as in <c>@dolist n e=##</c>.</summary>
    public bool IsDynamic => Word.AsSpan().ContainsAny('#', '%', '[');

    public bool HasEquals => _equals >= 0;

    public Expression Argument => _argument ??= Parse(Rest);

    /// <summary>The part before the equals sign.</summary>
    public Expression Left => _left ??= Parse(HasEquals ? Rest[.._equals].Trim() : Rest);

    /// <summary>The part after the equals sign.</summary>
    public Expression Right => _right ??= Parse(HasEquals ? Rest[(_equals + 1)..] : string.Empty);

    /// <summary>The part after the equals sign, as commands.</summary>
    public IReadOnlyList<ParsedAction> RightActions =>
        _rightActions ??= ParseList(HasEquals ? Rest[(_equals + 1)..] : string.Empty, _functions, _budget);

    public static IReadOnlyList<ParsedAction> ParseList(string text, FunctionTable functions, SoftcodeBudget budget)
    {
        budget.Spend(text.Length);
        return [.. CommandText.SplitActions(text, budget).Select(action => ParseOne(action, functions, budget))];
    }

    public static ParsedAction ParseOne(string text, FunctionTable functions, SoftcodeBudget budget)
    {
        budget.Spend(text.Length);
        var action = text.Trim();
        if (action.Length > 0 && action[0] is '"' or ':' or ';' or '\\')
            return new ParsedAction(action[..1], action[1..], functions, budget);
        var space = action.IndexOf(' ', StringComparison.Ordinal);
        return space < 0
            ? new ParsedAction(action, string.Empty, functions, budget)
            : new ParsedAction(action[..space], action[(space + 1)..].TrimStart(), functions, budget);
    }

    /// <summary>The same action once its word is known.</summary>
    public ParsedAction WithWord(string word) => ParseOne($"{word} {Rest}", _functions, _budget);

    public Expression ParseWord() => Parse(Word);

    private Expression Parse(string text) => SoftcodeParser.Parse(text, _functions, _budget);
}
