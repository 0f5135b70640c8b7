using System.Net;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>BatchKit: the handler writes each record to the output buffer, and one read's leave in one write.</summary>
internal sealed class BatchKitEchoServer : IEchoServer
{
    private readonly BroadcastTransport _transport;
    private readonly OutputBuffer _output;
    private readonly BroadcastListener _listener;

    /// <param name="partitions">Ordered lanes. The replies to two clients need no common order, so that each reader may send on its own thread.</param>
    public BatchKitEchoServer(int partitions)
    {
        _transport = new BroadcastTransport(new BroadcastOptions { KeepAliveInterval = null, MaxConnectionsPerAddress = 100_000, TextInputLimits = null });
        _output = new OutputBuffer([new OutputRoute("local", _transport, partitions)]);
        var options = new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Cutter = new WholeRecordCutter() };
        _listener = new BroadcastListener(_transport, options, connection => new Handler(connection.Handle, _output), _output);
    }

    public async Task<int> StartAsync()
    {
        await _listener.StartAsync(CancellationToken.None);
        return _listener.EndPoint.Port;
    }

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
        await _listener.DisposeAsync();
    }

    private sealed class Handler(OutputHandle handle, OutputBuffer output) : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            for (var index = 0; index < records.Length; index++)
            {
                if (!output.TryWrite(handle, records.Span[index].Payload.Span))
                    return WriteRestAsync(records[index..], cancellationToken);
            }

            return default;
        }

        // No room: the client's next read waits until there is.
        private async ValueTask WriteRestAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            for (var index = 0; index < records.Length; index++)
                await output.WriteAsync(handle, records.Span[index].Payload, cancellationToken: cancellationToken);
        }
    }
}

/// <summary>Leaves the prefix in the record, so that it can be sent back as it is.</summary>
internal sealed class WholeRecordCutter : IRecordCutter
{
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        consumedBytes = Records.EndOfFirst(bytes);
        record = ..consumedBytes;
        return consumedBytes > 0 ? CutResult.Record : CutResult.Incomplete;
    }
}
