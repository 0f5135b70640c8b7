using BatchKit.Diagnostics;
using BatchKit.SignalR.Records;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR.Clients;

/// <summary>What all clients of a transport share: their limits, and the counters of what they were sent.</summary>
internal sealed class ClientLimits(SignalROptions options, TimeProvider timeProvider, ILogger logger)
{
    private readonly LogThrottle _throttle = new(timeProvider);
    private long _writes;
    private long _messages;
    private long _bytes;
    private long _cutClients;

    public int MaxQueuedBytes { get; } = options.MaxQueuedBytes;

    public TimeSpan StuckAfter { get; } = options.StuckAfter;

    public TimeProvider TimeProvider { get; } = timeProvider;

    public long Writes => Interlocked.Read(ref _writes);

    public long Messages => Interlocked.Read(ref _messages);

    public long Bytes => Interlocked.Read(ref _bytes);

    public long CutClients => Interlocked.Read(ref _cutClients);

    /// <summary>Counts one write for all runs, or one for each message.</summary>
    public void CountWrites(List<EncodedRun> runs, bool isForEach)
    {
        var (messages, bytes) = (0L, 0L);
        foreach (var run in runs)
            (messages, bytes) = (messages + run.Count, bytes + run.Length);
        Interlocked.Add(ref _writes, isForEach ? messages : 1);
        Interlocked.Add(ref _messages, messages);
        Interlocked.Add(ref _bytes, bytes);
    }

    /// <summary>Ends the connection of a client that does not read.</summary>
    public void Cut(HubConnectionContext connection)
    {
        Interlocked.Increment(ref _cutClients);
        Log.ClientCut(logger, _throttle, connection.ConnectionId, MaxQueuedBytes);
        connection.Abort();
    }

    /// <summary>Tells that messages came without the protocol of a client here.</summary>
    public void ReportMissing(string protocol, int messages) => Log.ProtocolMissing(logger, _throttle, protocol, messages);
}
