using System.Collections.Concurrent;
using System.Globalization;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Checks what one client gets, line by line, as it comes. Lines: <c>join</c> and <c>leave</c> with a stream, <c>m</c> with a stream and a number, and <c>end</c>.</summary>
internal sealed class MemberLog(string name, ConcurrentQueue<string> offences)
{
    private readonly ConcurrentQueue<Membership> _announced = new();
    private readonly Dictionary<int, Membership> _open = [];
    private volatile MessageStreams? _streams;
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public Task Ended => _ended.Task;

    public long Messages { get; private set; }

    /// <summary>Tells of a membership before its <c>join</c> can come; they come in this order.</summary>
    public void Announce(Membership membership) => _announced.Enqueue(membership);

    /// <summary>Says what the last number of each stream is, before <c>end</c> can come.</summary>
    public void EndsWith(MessageStreams streams) => _streams = streams;

    public void Take(string line)
    {
        var words = line.Split(' ');
        switch (words[0])
        {
            case "m":
                Messages++;
                Take(Number(words[1]), Number(words[2]));
                break;
            case "join":
                Open(Number(words[1]));
                break;
            case "leave":
                Close(Number(words[1]));
                break;
            case "end":
                End();
                break;
            default:
                Complain($"got '{line}'");
                break;
        }
    }

    private static int Number(string word) => int.Parse(word, CultureInfo.InvariantCulture);

    private void Take(int stream, long number)
    {
        if (!_open.TryGetValue(stream, out var membership))
            Complain($"got message {number} of stream {stream} without being in its group");
        else if (membership.Take(number) is { } offence)
            Complain($"stream {stream}: {offence}");
    }

    private void Open(int stream)
    {
        if (!_announced.TryDequeue(out var membership) || membership.Stream != stream || !_open.TryAdd(stream, membership))
            Complain($"was told of a join of stream {stream} that was not next");
    }

    private void Close(int stream)
    {
        if (_open.Remove(stream, out var membership) && membership.End() is { } offence)
            Complain($"stream {stream}: {offence}");
    }

    private void End()
    {
        foreach (var (stream, membership) in _open.ToArray())
        {
            membership.MustReach(_streams!.Written(stream));
            Close(stream);
        }

        _ended.SetResult();
    }

    private void Complain(string offence)
    {
        if (offences.Count < 20)
            offences.Enqueue($"{name} {offence}.");
    }
}
