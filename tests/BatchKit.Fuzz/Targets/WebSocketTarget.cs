using System.Net.WebSockets;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Tests.WebSockets;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Diagnostics;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Fuzz.Targets;

/// <summary>What a WebSocket client sends behind its handshake is taken or refused, and no message passes the limit. The first byte says how many bytes a read has.</summary>
internal static class WebSocketTarget
{
    private static readonly BroadcastOptions Options = new() { MaxRecordBytes = 100 };
    private static readonly SendQueueLimits Limits = SendQueueLimits.From(Options);
    private static readonly OutputHandle Handle = OutputHandle.Connection(0, 1);

    public static void Run(byte[] input)
    {
        if (input.Length == 0)
            return;
        var server = new ChunkedStream(input[1..], input.Length - 1, chunkBytes: input[0] + 1);
        var path = new OutputPath(Handle, NullLogger.Instance);
        path.ChooseStream("nothing is sent directly in memory");
        var wire = new UpgradedWire(server, socket: null, path, new UpgradedEnding(new DefaultHttpContext()));
        var queue = new SendQueue(wire, Limits, new DeliveryCounters(), TimeProvider.System);
        var origin = new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false);
        var connection = new ClientConnection(Handle, ClientProtocol.WebSocket, origin, queue, WireFormat.WebSocketText, TimeProvider.System);
        var stream = new UpgradedStream(server);
        using var socket = WebSocket.CreateFromStream(stream, new WebSocketCreationOptions { IsServer = true, KeepAliveInterval = Timeout.InfiniteTimeSpan });
        var inbound = new WebSocketInbound(connection, socket, stream, wire, Options, new WebSocketEndpointOptions { AcceptsBinary = true }, NullLogger.Instance);
        var delivery = new InboundDelivery(connection, new LimitedHandler(), output: null, Options, new(TimeProvider.System), NullLogger.Instance);

        var running = inbound.RunAsync(delivery, CancellationToken.None);

        // The stream never waits, so what is not over by now never ends.
        FuzzTarget.Require(running.IsCompleted, "input that has ended ends its connection");
        running.GetAwaiter().GetResult();
    }

    private sealed class LimitedHandler : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            foreach (var record in records.Span)
                FuzzTarget.Require(record.Payload.Length <= Options.MaxRecordBytes, "no record is above its limit");
            return default;
        }
    }
}
