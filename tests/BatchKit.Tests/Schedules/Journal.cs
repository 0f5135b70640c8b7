namespace BatchKit.Tests.Schedules;

/// <summary>What happened on a schedule, step by step, for whoever has to find out why it failed.</summary>
internal sealed class Journal
{
    private readonly List<string> _lines = [];

    /// <summary>The first rule that was broken. The explorer looks at it after each step: a throw inside a send would only be a failed send.</summary>
    public string? BrokenRule { get; private set; }

    public void Add(string line) => _lines.Add(line);

    public void Broken(string rule)
    {
        _lines.Add($"BROKEN: {rule}");
        BrokenRule ??= rule;
    }

    public string Last(int lines) => string.Join(Environment.NewLine, _lines.TakeLast(lines));
}
