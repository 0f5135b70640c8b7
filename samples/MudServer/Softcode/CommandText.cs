namespace MudServer.Softcode;

/// <summary>Splits a command into its parts. Separators inside brackets, braces or parentheses, or after a backslash, do not count.</summary>
internal static class CommandText
{
    /// <summary>Returns the index of the first separator, or -1.</summary>
    public static int IndexOf(string text, char separator, int start = 0)
    {
        var depth = 0;
        for (var index = start; index < text.Length; index++)
        {
            var letter = text[index];
            if (letter == separator && depth == 0)
                return index;
            if (letter is '\\' or '%')
                index++;
            else if (letter is '[' or '{' or '(')
                depth++;
            else if (letter is ']' or '}' or ')' && depth > 0)
                depth--;
        }

        return -1;
    }

    /// <summary>Splits an action list at its semicolons. Braces around the whole list or around a part are removed; each level of them costs the budget its characters.</summary>
    public static IEnumerable<string> SplitActions(string text, SoftcodeBudget budget)
    {
        var start = 0;
        while (start <= text.Length)
        {
            var end = IndexOf(text, ';', start);
            if (end < 0)
                end = text.Length;
            var action = text[start..end].Trim();
            start = end + 1;
            if (TryUnwrap(action, out var inner))
            {
                budget.Enter();
                budget.Spend(inner.Length);
                foreach (var innerAction in SplitActions(inner, budget))
                    yield return innerAction;
                budget.Leave();
            }
            else if (action.Length > 0)
            {
                yield return action;
            }
        }
    }

    private static bool TryUnwrap(string action, out string inner)
    {
        inner = string.Empty;
        if (action.Length < 2 || action[0] != '{' || IndexOf(action, '}', start: 1) != action.Length - 1)
            return false;
        inner = action[1..^1];
        return true;
    }
}
