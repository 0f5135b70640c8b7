using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Nodes;

/// <summary>Writes numbered messages in scopes, of one handle or of several, and records what becomes of them.</summary>
/// <remarks>One loop opens and closes the scopes, one after the other, so the numbers are the order in which the output is queued. It does not wait for their delivery.</remarks>
internal sealed class NodeWriter(IOutputBuffer output, NodeSettings settings, NodeControl control, HistoryWriter history)
{
    private const int MaxOpenScopes = 100;
    private const int MaxMessagesInScope = 8;
    private const int MaxSmallBytes = 300;
    private const int LargeBytes = 30_000;
    private const int OneLargeIn = 200;

    private static readonly TimeSpan ShortestPause = TimeSpan.FromMilliseconds(5);
    private static readonly TimeSpan LongestPause = TimeSpan.FromMilliseconds(60);

    private readonly Random _random = new(settings.Seed);
    private readonly Dictionary<long, Task> _open = [];
    private long _next;

    /// <summary>Writes until told to stop; completes when everything is settled, which is by the stop of the buffer at the latest.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        var isQuiet = false;
        while (!stop.IsCancellationRequested)
        {
            if (!control.IsPaused && _open.Count < MaxOpenScopes)
                WriteScope();
            else if (control.IsPaused && _open.Count == 0 && !isQuiet)
                history.Write(now => new Quiet(now));
            isQuiet = control.IsPaused && _open.Count == 0;
            await Task.Delay(ShortestPause + ((LongestPause - ShortestPause) * _random.NextDouble()), CancellationToken.None);
            foreach (var (first, closing) in _open.Where(scope => scope.Value.IsCompleted).ToArray())
            {
                _open.Remove(first);
                await closing;
            }
        }

        await Task.WhenAll(_open.Values);
    }

    private void WriteScope()
    {
        if (settings.Targets.Count == 0)
            return;
        var (first, count) = (_next, _random.Next(1, MaxMessagesInScope + 1));
        var isAmbient = _random.Next(2) == 0;
        var one = _random.Next(settings.Targets.Count);
        int[] targets = [.. Enumerable.Range(0, count).Select(_ => isAmbient ? _random.Next(settings.Targets.Count) : one)];
        history.Write(now => new AboutToWrite(now, first, targets));
        try
        {
            var scope = isAmbient ? output.BeginBufferingScope() : output.BeginBufferingScope(NodeHost.HandleOf(settings, one));
            var accepted = WriteMessages(targets);
            history.Write(now => new Accepted(now, first, accepted));
            _open.Add(first, SettleAsync(scope.DisposeAsync(), first, accepted));
        }
        catch (ObjectDisposedException)
        {
            // The buffer has stopped before the scope.
        }
    }

    private int WriteMessages(int[] targets)
    {
        var written = 0;
        try
        {
            foreach (var target in targets)
            {
                output.Write(NodeHost.HandleOf(settings, target), ArrivalRecorder.Encode(new MessageId(settings.Name, settings.Version, _next), Filling()), NodeHost.HeaderOf(settings, target));
                _next++;
                written++;
            }
        }
        catch (ObjectDisposedException)
        {
            // The buffer has stopped meanwhile.
        }

        return written;
    }

    private int Filling() => _random.Next(OneLargeIn) == 0 ? LargeBytes : _random.Next(MaxSmallBytes);

    private async Task SettleAsync(ValueTask closing, long first, int count)
    {
        var lost = 0L;
        try
        {
            await closing;
        }
        catch (OutputDeliveryException loss)
        {
            lost = loss.LostMessages;
        }

        history.Write(now => new Settled(now, first, count, lost));
    }
}
