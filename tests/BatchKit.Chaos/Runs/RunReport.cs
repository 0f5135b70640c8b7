using System.Diagnostics;
using System.Globalization;
using System.Text;
using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Runs;

/// <summary>What a run came to, to be read by a human.</summary>
internal sealed class RunReport
{
    private const int MaxOfRule = 2;
    private const int MaxFaults = 12;
    private const int MaxLines = 8;
    private const int MaxLineLength = 200;

    private static readonly TimeSpan Near = TimeSpan.FromSeconds(5);

    private readonly RunHistory _history;
    private readonly string? _unrest;
    private readonly string _summary;
    private readonly IReadOnlyList<Violation> _violations;
    private readonly string _output;
    private readonly string _folder;

    public RunReport(Guarantee guarantee, int seed, TimeSpan length, RunHistory history, string? unrest, string output, string folder)
    {
        (_history, _unrest, _output, _folder) = (history, unrest, output, folder);
        var checker = new HistoryChecker(guarantee, history);
        _violations = checker.Check();
        var stories = checker.Stories.All;
        var faults = history.Faults.GroupBy(fault => fault.Fault.Kind).OrderBy(kind => kind.Key).Select(kind => $"{kind.Key} {kind.Count()}");
        _summary = string.Create(CultureInfo.InvariantCulture, $"""
            {guarantee.Transport}, seed {seed}, {length.TotalSeconds:0} s: {history.Faults.Count} faults ({string.Join(", ", faults)}), {history.Processes.Count} processes,
            {stories.Count} messages: {stories.Count(story => story.IsAcknowledged)} acknowledged, {stories.Count(story => story.Settled is null)} unsettled by killed processes, {stories.Count(story => story.Settled is { Lost: > 0 } lost && story.Writer.EndBegan <= lost.Time)} reported as lost at a stop and {stories.Count(story => story.Settled is { Lost: > 0 } lost && !(story.Writer.EndBegan <= lost.Time))} before,
            {stories.Sum(story => story.Arrivals.Count)} arrivals, {stories.Count(story => story.Arrivals.GroupBy(arrival => story.Target.IsForAnyNode ? 0 : arrival.At.Node).Any(node => node.Count() > 1))} messages doubled, {_violations.Count} violations
            """);
    }

    /// <summary>Whether it kept the guarantee, and came to rest.</summary>
    public bool IsClean => _unrest is null && _violations.Count == 0;

    /// <summary>The figures.</summary>
    public string Summary => _summary;

    /// <summary>What is wrong: rules, messages, their history, and the faults near them.</summary>
    public string Complaint
    {
        get
        {
            var text = new StringBuilder(_summary).AppendLine();
            if (_unrest is not null)
                text.AppendLine(_unrest);
            foreach (var violation in _violations.GroupBy(violation => violation.Rule).SelectMany(rule => rule.Take(MaxOfRule)))
                Append(text, violation);
            text.AppendLine(CultureInfo.InvariantCulture, $"All: {string.Join(", ", _violations.GroupBy(violation => violation.Rule).Select(rule => $"{rule.Key} {rule.Count()}"))}");
            text.AppendLine(CultureInfo.InvariantCulture, $"The histories are in {_folder}");
            // Where the run was made elsewhere, they may be gone.
            if (_unrest is not null)
                text.AppendLine("The ends of the consoles:").AppendJoin(Environment.NewLine, LastLines()).AppendLine();
            return text.ToString();
        }
    }

    /// <summary>Deletes the histories, or adds to them what the processes wrote to their consoles.</summary>
    public void Close()
    {
        if (IsClean)
            Directory.Delete(_folder, recursive: true);
        else
            File.WriteAllText(Path.Combine(_folder, "consoles.txt"), _output);
    }

    // The last lines of each process, which begin with its name.
    private IEnumerable<string> LastLines() =>
        from console in $"\n{_output}".Split("\n-- ", StringSplitOptions.RemoveEmptyEntries)
        let lines = console.Split('\n', StringSplitOptions.RemoveEmptyEntries | StringSplitOptions.TrimEntries)
        where lines.Length > 1
        from line in lines.Skip(1).TakeLast(MaxLines).Prepend($"-- {lines[0]}")
        select line.Length <= MaxLineLength ? line : line[..MaxLineLength];

    private void Append(StringBuilder text, Violation violation)
    {
        text.AppendLine(CultureInfo.InvariantCulture, $"{violation.Rule}, at {Seconds(violation.Time)}: {violation.What}");
        if (violation.Story is { } story)
        {
            text.AppendLine(CultureInfo.InvariantCulture, $"  message {story.Id} for {story.Target.Name}");
            foreach (var (at, line) in story.Lines)
                text.AppendLine(CultureInfo.InvariantCulture, $"  {Seconds(line.Time)} {at}: {line}");
        }

        var from = (violation.Story?.About.Time ?? violation.Time) - Ticks(Near);
        var to = violation.Time + Ticks(Near);
        foreach (var fault in _history.Faults.Where(fault => fault.Ended >= from && fault.Began <= to).Take(MaxFaults))
            text.AppendLine(CultureInfo.InvariantCulture, $"  fault from {Seconds(fault.Began)} to {Seconds(fault.Ended)}: {fault.Fault}");
    }

    private string Seconds(long time) => string.Create(CultureInfo.InvariantCulture, $"{Stopwatch.GetElapsedTime(_history.Began, time).TotalSeconds:0.000} s");

    private static long Ticks(TimeSpan time) => (long)(time.TotalSeconds * Stopwatch.Frequency);
}
