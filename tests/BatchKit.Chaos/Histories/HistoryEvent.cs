using System.Globalization;

namespace BatchKit.Chaos.Histories;

/// <summary>One line of a process' history. Times are timestamps of the machine's monotonic clock, which all processes share.</summary>
/// <param name="Time">When it happened.</param>
internal abstract record HistoryEvent(long Time)
{
    private const char Separator = ' ';

    protected abstract string Word { get; }

    protected abstract string Fields { get; }

    /// <summary>The line of a file.</summary>
    public sealed override string ToString() => Fields.Length == 0 ? Text($"{Time} {Word}") : Text($"{Time} {Word} {Fields}");

    /// <summary>Reads a line.</summary>
    /// <exception cref="FormatException">It is none.</exception>
    public static HistoryEvent Parse(string line)
    {
        var parts = line.Split(Separator);
        var time = long.Parse(parts[0], CultureInfo.InvariantCulture);
        return parts[1] switch
        {
            "started" => new Started(time),
            "about" => new AboutToWrite(time, Number(parts[2]), [.. parts[3].Split(',').Select(target => (int)Number(target))]),
            "accepted" => new Accepted(time, Number(parts[2]), (int)Number(parts[3])),
            "settled" => new Settled(time, Number(parts[2]), (int)Number(parts[3]), Number(parts[4])),
            "arrived" => new Arrived(time, new MessageId(parts[2], (int)Number(parts[3]), Number(parts[4])), Number(parts[5])),
            "quiet" => new Quiet(time),
            "ended" => new Ended(time, [.. parts[2].Split(',').Select(Number)], [.. parts[3].Split(',', StringSplitOptions.RemoveEmptyEntries).Select(Number)]),
            _ => throw new FormatException($"A history has no line \"{line}\"."),
        };
    }

    private protected static string Text(FormattableString text) => text.ToString(CultureInfo.InvariantCulture);

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);
}

/// <summary>A message: who wrote it, in which of the writer's processes, and its number there.</summary>
internal readonly record struct MessageId(string Writer, int Version, long Number)
{
    public override string ToString() => string.Create(CultureInfo.InvariantCulture, $"{Writer} {Version} {Number}");
}

/// <summary>The process receives, and may write.</summary>
internal sealed record Started(long Time) : HistoryEvent(Time)
{
    protected override string Word => "started";

    protected override string Fields => "";
}

/// <summary>The process is about to write messages: recorded before the first write, so that no message arrives that no history names.</summary>
/// <param name="Time">When.</param>
/// <param name="First">The first message's number.</param>
/// <param name="Targets">The target of each message, by its place in the writer's settings.</param>
internal sealed record AboutToWrite(long Time, long First, IReadOnlyList<int> Targets) : HistoryEvent(Time)
{
    protected override string Word => "about";

    protected override string Fields => Text($"{First} {string.Join(',', Targets)}");
}

/// <summary>The buffer has accepted messages.</summary>
internal sealed record Accepted(long Time, long First, int Count) : HistoryEvent(Time)
{
    protected override string Word => "accepted";

    protected override string Fields => Text($"{First} {Count}");
}

/// <summary>The end of a scope told what became of its messages: recorded afterwards, so that a killed process has promised no more than its history says.</summary>
/// <param name="Time">When.</param>
/// <param name="First">The first message's number.</param>
/// <param name="Count">How many messages the scope had.</param>
/// <param name="Lost">How many of them are reported as failed or dropped.</param>
internal sealed record Settled(long Time, long First, int Count, long Lost) : HistoryEvent(Time)
{
    protected override string Word => "settled";

    protected override string Fields => Text($"{First} {Count} {Lost}");
}

/// <summary>A message arrived: recorded before it is acknowledged, so that no acknowledged message is missing.</summary>
/// <param name="Time">When.</param>
/// <param name="Message">The message.</param>
/// <param name="Row">The row of a queue that it came from; zero over a broker.</param>
internal sealed record Arrived(long Time, MessageId Message, long Row) : HistoryEvent(Time)
{
    protected override string Word => "arrived";

    protected override string Fields => Text($"{Message} {Row}");
}

/// <summary>The process was told to write no more, and everything that it wrote is settled.</summary>
internal sealed record Quiet(long Time) : HistoryEvent(Time)
{
    protected override string Word => "quiet";

    protected override string Fields => "";
}

/// <summary>The process ended normally, with these counters.</summary>
/// <param name="Time">When.</param>
/// <param name="Output">Accepted, acknowledged, failed, dropped and pending messages of its buffer.</param>
/// <param name="Input">Received, delivered, duplicate, own-group, refused and abandoned messages of its receiver, and malformed and rejected frames; empty where it counts otherwise.</param>
internal sealed record Ended(long Time, IReadOnlyList<long> Output, IReadOnlyList<long> Input) : HistoryEvent(Time)
{
    protected override string Word => "ended";

    protected override string Fields => Text($"{string.Join(',', Output)} {string.Join(',', Input)}");
}
