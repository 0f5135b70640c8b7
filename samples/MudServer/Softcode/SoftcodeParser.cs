namespace MudServer.Softcode;

/// <summary>Turns softcode into an <see cref="Expression"/>, in one pass. Open brackets are closed at the end of the text; no text is an error.</summary>
internal sealed class SoftcodeParser
{
    private const string ArgumentEnd = ",)";

    private readonly string _text;
    private readonly FunctionTable _functions;
    private readonly SoftcodeBudget _budget;
    private int _position;

    private SoftcodeParser(string text, FunctionTable functions, SoftcodeBudget budget)
    {
        _text = text;
        _functions = functions;
        _budget = budget;
    }

    /// <summary>Parses a text whose first word may be a function, as in <c>think add(1,2)</c>.</summary>
    public static Expression Parse(string text, FunctionTable functions, SoftcodeBudget budget)
    {
        budget.Spend(text.Length);
        var parser = new SoftcodeParser(text, functions, budget);
        return parser.ParseRun(string.Empty, inBracket: false, mayCall: true).Build();
    }

    private ExpressionBuilder ParseRun(string ending, bool inBracket, bool mayCall)
    {
        _budget.Enter();
        var run = new ExpressionBuilder();
        ParseInto(run, ending, inBracket, mayCall);
        _budget.Leave();
        return run;
    }

    private void ParseInto(ExpressionBuilder run, string ending, bool inBracket, bool mayCall)
    {
        while (_position < _text.Length && !ending.Contains(_text[_position], StringComparison.Ordinal))
        {
            var letter = _text[_position++];
            switch (letter)
            {
                case '\\':
                    run.AddQuoted(TryTake(out var quoted) ? quoted : '\\');
                    break;
                case '%':
                    ParseSubstitution(run);
                    break;
                case '#':
                    ParseNumberSign(run);
                    break;
                case '[':
                    run.Add(ParseRun("]", inBracket: true, mayCall: true).Build());
                    TrySkip(']');
                    break;
                case '{':
                    run.Add(ParseRun("}", inBracket: false, mayCall: false).Build());
                    TrySkip('}');
                    break;
                case '(':
                    ParseParenthesis(run, ending, inBracket, mayCall);
                    break;
                default:
                    run.Add(letter);
                    break;
            }
        }
    }

    private void ParseSubstitution(ExpressionBuilder run)
    {
        if (!TryTake(out var letter))
        {
            run.AddQuoted('%');
            return;
        }

        switch (char.ToLowerInvariant(letter))
        {
            case '#' or 'n' or 'l':
                run.Add(new EnactorExpression(char.ToLowerInvariant(letter)));
                break;
            case 'r':
                run.Add(new LiteralExpression("\r\n"));
                break;
            case 'b':
                run.Add(new LiteralExpression(" "));
                break;
            case 't':
                run.Add(new LiteralExpression("\t"));
                break;
            case 'i' when _position < _text.Length && char.IsAsciiDigit(_text[_position]):
                run.Add(new LoopItemExpression(_text[_position++] - '0', "#-1 NOT IN A LOOP"));
                break;
            default:
                run.AddQuoted(letter);
                break;
        }
    }

    private void ParseNumberSign(ExpressionBuilder run)
    {
        if (TrySkip('#'))
            run.Add(new LoopItemExpression(0, "##"));
        else
            run.Add('#');
    }

    private void ParseParenthesis(ExpressionBuilder run, string ending, bool inBracket, bool mayCall)
    {
        var name = mayCall ? run.FunctionName : null;
        if (name is not null && _functions.TryGet(name, out var function))
        {
            ParseCall(run, function);
            return;
        }

        if (name is not null && inBracket)
        {
            ParseArguments();
            run.ReplaceWord($"#-1 FUNCTION ({name.ToUpperInvariant()}) NOT FOUND");
            return;
        }

        // Plain parentheses: commas inside do not separate a call's arguments, and an unmatched one, as in a smiley, does not hide the bracket around it.
        var inner = ending == ArgumentEnd ? ")" : ")" + ending;
        run.AddQuoted('(');
        run.Add(ParseRun(inner, inBracket: false, mayCall: false).Build());
        if (TrySkip(')'))
            run.Add(')');
    }

    private void ParseCall(ExpressionBuilder run, SoftcodeFunction function)
    {
        var arguments = ParseArguments();
        if (arguments.Count == 0 && function.MinArguments == 1)
            arguments.Add(LiteralExpression.Empty);
        if (arguments.Count < function.MinArguments || arguments.Count > function.MaxArguments)
            run.ReplaceWord(function.ArityError(arguments.Count));
        else
            run.ReplaceWord(new CallExpression(function, arguments));
    }

    private List<Expression> ParseArguments()
    {
        var arguments = new List<Expression>();
        do
        {
            var argument = ParseRun(ArgumentEnd, inBracket: false, mayCall: true);
            argument.TrimStart();
            argument.TrimEnd();
            arguments.Add(argument.Build());
        }
        while (TrySkip(','));

        var isEmpty = arguments is [LiteralExpression only] && ReferenceEquals(only, LiteralExpression.Empty);
        TrySkip(')');
        return isEmpty ? [] : arguments;
    }

    private bool TryTake(out char letter)
    {
        var isThere = _position < _text.Length;
        letter = isThere ? _text[_position++] : default;
        return isThere;
    }

    private bool TrySkip(char letter)
    {
        var isThere = _position < _text.Length && _text[_position] == letter;
        if (isThere)
            _position++;
        return isThere;
    }
}
