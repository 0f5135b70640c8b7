using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tests.Connections;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Reads what a client sends as a listener does, but without a socket and on the caller's thread as long as it does not wait.</summary>
internal sealed class InboundRun(BroadcastOptions options, IRecordCutter cutter)
{
    private static readonly SendQueueLimits Limits = new(1 << 20, 1 << 20, SlowConsumerPolicy.Disconnect);

    private readonly DeliveryCounters _counters = new();
    private ClientConnection? _connection;

    public FragmentSource Source { get; } = new();

    public RecordCollector Collector { get; } = new();

    public ByteInbound? Inbound { get; private set; }

    public Task<DisconnectReason> Closing => _connection!.Closing;

    public InboundEnd Run(IConnectionHandler? handler = null) => Start(Source, handler ?? Collector).GetAwaiter().GetResult();

    public Task<InboundEnd> Start(IByteSource source, IConnectionHandler handler)
    {
        // A connection is used again until it was refused: most of the time goes into making one.
        if (_connection is null or { Closing.IsCompleted: true })
        {
            var queue = new SendQueue(new FakeWire(), Limits, _counters, TimeProvider.System);
            var origin = new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false);
            _connection = new ClientConnection(Some.Connection(), ClientProtocol.Tcp, origin, queue, WireFormat.Raw, TimeProvider.System);
        }

        var reader = new CutRecordReader(cutter, options.MaxRecordBytes);
        Inbound = new ByteInbound(_connection, source, reader, options, NullLogger.Instance);
        return Inbound.RunAsync(new InboundDelivery(_connection, handler, output: null, options, new LogThrottle(TimeProvider.System), NullLogger.Instance), CancellationToken.None);
    }
}
