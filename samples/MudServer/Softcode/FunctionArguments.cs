using System.Globalization;

namespace MudServer.Softcode;

/// <summary>A call's arguments; reading one evaluates it, so a branch that is not taken costs nothing.</summary>
internal readonly struct FunctionArguments(Evaluation evaluation, IReadOnlyList<Expression> expressions)
{
    public const string NotANumber = "#-1 ARGUMENTS MUST BE NUMBERS";

    public Evaluation Evaluation { get; } = evaluation;

    public int Count => expressions.Count;

    /// <summary>Evaluates an argument to its text. Reading counts against the budget too, because a loop that only reads a long text also takes time.</summary>
    public string this[int index]
    {
        get
        {
            var text = expressions[index].Evaluate(Evaluation);
            Evaluation.Budget.Spend(text.Length);
            return text;
        }
    }

    public Expression Expression(int index) => expressions[index];

    public string OrElse(int index, string otherwise) => index < Count ? this[index] : otherwise;

    public bool TryNumber(int index, out double number)
    {
        var text = this[index].AsSpan().Trim();
        if (text.IsEmpty)
        {
            number = 0;
            return true;
        }

        return double.TryParse(text, NumberStyles.Float, CultureInfo.InvariantCulture, out number) && double.IsFinite(number);
    }

    public bool TryInteger(int index, out long number)
    {
        number = 0;
        var isNumber = TryNumber(index, out var value) && Math.Abs(value) < 1e15;
        if (isNumber)
            number = (long)value;
        return isNumber;
    }
}
