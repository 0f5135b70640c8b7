using BatchKit.Diagnostics;
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

    /// <summary>Counts writes.</summary>
    public void Count(in Written written)
    {
        Interlocked.Add(ref _writes, written.Writes);
        Interlocked.Add(ref _messages, written.Messages);
        Interlocked.Add(ref _bytes, written.Bytes);
    }

    /// <summary>Ends the connection of a client that does not read.</summary>
    public void Cut(HubConnectionContext connection)
    {
        Interlocked.Increment(ref _cutClients);
        Log.ClientCut(logger, _throttle, connection.ConnectionId, MaxQueuedBytes);
        connection.Abort();
    }

    /// <summary>Tells that a protocol could not encode a message for clients here or elsewhere.</summary>
    public void ReportUnencoded(string protocol, Exception error) => Log.NotEncoded(logger, _throttle, protocol, error);

    /// <summary>Tells that messages came without the protocol of a client here.</summary>
    public void ReportMissing(string protocol, int messages) => Log.ProtocolMissing(logger, _throttle, protocol, messages);
}

/// <summary>What was written to clients.</summary>
internal readonly record struct Written(long Writes, long Messages, long Bytes)
{
    public static Written operator +(Written left, Written right) => new(left.Writes + right.Writes, left.Messages + right.Messages, left.Bytes + right.Bytes);
}
