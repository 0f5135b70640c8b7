using System.Diagnostics;
using System.Globalization;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Numbered messages for everybody, and how long they took to arrive.</summary>
internal sealed class Broadcasts(HoldServer server)
{
    private const int MessageBytes = 1000;

    private readonly List<long> _writtenAt = [];

    public int Count => _writtenAt.Count;

    /// <summary>The number that a line begins with.</summary>
    public static int NumberOf(string line) => int.Parse(line.AsSpan(0, line.IndexOf(' ')), CultureInfo.InvariantCulture);

    /// <summary>Writes one, and returns when every socket or queue has it.</summary>
    public async Task WriteAsync()
    {
        _writtenAt.Add(Stopwatch.GetTimestamp());
        var line = $"{_writtenAt.Count} ".PadRight(MessageBytes - 1, '.');
        server.Output.Write(Crowd.Hall, line + "\n");
        await server.Output.FlushAsync().WithinDeadline();
    }

    /// <summary>The 99th percentile of the times from a write to a client's having read it.</summary>
    /// <param name="clients">Whose times.</param>
    /// <param name="first">The first message's number.</param>
    /// <param name="last">The last one's.</param>
    public double P99Milliseconds(IEnumerable<CrowdClient> clients, int first, int last)
    {
        var times = from client in clients
                    from entry in client.Lines.Timed
                    where entry.Line.Length > 1 && char.IsDigit(entry.Line[0])
                    let number = NumberOf(entry.Line)
                    where number >= first && number <= last
                    select Stopwatch.GetElapsedTime(_writtenAt[number - 1], entry.At).TotalMilliseconds;
        var sorted = times.Order().ToArray();
        return sorted[(int)(sorted.Length * 0.99)];
    }
}
