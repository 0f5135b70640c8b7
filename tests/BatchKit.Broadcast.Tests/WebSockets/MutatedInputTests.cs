using System.Net.WebSockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Diagnostics;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Broken input of any kind does what RFC 6455 says, and no more.</summary>
[Trait("Lane", "slow: many random inputs")]
public sealed class MutatedInputTests(ITestOutputHelper output)
{
    private const int Seeds = 1000;

    // A session's own objects, a buffer, an exception; and, for the first one, what a process allocates once.
    private const int MaxAllocatedBytes = 128 * 1024;

    private static readonly BroadcastOptions Options = new() { MaxRecordBytes = 100 };
    private static readonly SendQueueLimits Limits = SendQueueLimits.From(Options);

    [Fact]
    public void Mutated_inputs_are_taken_answered_and_closed_as_the_protocol_says()
    {
        var first = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : 0;
        var longest = new TimeSpan[Seeds];

        Parallel.For(0, Seeds, new ParallelOptions { MaxDegreeOfParallelism = Environment.ProcessorCount }, seed => longest[seed] = CheckAll(first + seed));

        output.WriteLine($"BATCHKIT_SEED={first} repeats this run. {ParserInputs.Count} inputs, the longest {longest.Max().TotalMilliseconds:F1} ms.");
    }

    /// <returns>The longest time that one input took.</returns>
    private static TimeSpan CheckAll(int seed)
    {
        var (input, inputs) = (new MutatedInput(seed), new ParserInputs());
        for (var number = 0; number < ParserInputs.Count / Seeds; number++)
        {
            input.Next();
            inputs.Begin();
            try
            {
                Check(input);
                inputs.End(number, seed);
            }
            catch (Exception failure)
            {
                var bytes = Convert.ToHexString(input.Bytes, 0, input.Length);
                throw new InvalidOperationException($"Seed {seed}, input {number}, {input.ChunkBytes} bytes a read: {bytes}", failure);
            }
        }

        return inputs.Longest;
    }

    private static void Check(MutatedInput input)
    {
        var server = new ChunkedStream(input.Bytes, input.Length, input.ChunkBytes);
        var handler = new KeepingHandler();

        var before = GC.GetAllocatedBytesForCurrentThread();
        Run(server, handler);
        var allocated = GC.GetAllocatedBytesForCurrentThread() - before;

        Assert.InRange(allocated, 0, MaxAllocatedBytes);
        if (!IsAsExpected(input, waitsForCharacters: true, server, handler))
            Assert.True(IsAsExpected(input, waitsForCharacters: false, server, handler));
    }

    private static bool IsAsExpected(MutatedInput input, bool waitsForCharacters, ChunkedStream server, KeepingHandler handler)
    {
        var expected = new ExpectedSession(Options.MaxRecordBytes, waitsForCharacters);
        expected.Read(input.Bytes.AsSpan(0, input.Length));
        return AreSame(expected.Messages, handler.Messages) && IsWritten(expected, [.. server.Written]);
    }

    private static bool AreSame(List<byte[]> expected, List<byte[]> taken)
    {
        var isSame = expected.Count == taken.Count;
        for (var message = 0; isSame && message < expected.Count; message++)
            isSame = expected[message].AsSpan().SequenceEqual(taken[message]);
        return isSame;
    }

    private static void Run(ChunkedStream server, KeepingHandler handler)
    {
        var path = new OutputPath(OutputHandle.Connection(0, 1), NullLogger.Instance);
        path.ChooseStream("nothing is sent directly in memory");
        var ending = new UpgradedEnding(new DefaultHttpContext());
        var wire = new UpgradedWire(server, socket: null, path, ending);
        var queue = new SendQueue(wire, Limits, new DeliveryCounters(), TimeProvider.System);
        var connection = new ClientConnection(
            OutputHandle.Connection(0, 1), ClientProtocol.WebSocket, new ConnectionOrigin(RemoteEndPoint: null, IsSecure: false), queue, WireFormat.WebSocketText, TimeProvider.System);
        var stream = new UpgradedStream(server);
        var socket = WebSocket.CreateFromStream(stream, new WebSocketCreationOptions { IsServer = true, KeepAliveInterval = Timeout.InfiniteTimeSpan });
        var inbound = new WebSocketInbound(connection, socket, stream, wire, Options, new WebSocketEndpointOptions { FiltersText = false, AcceptsBinary = true }, NullLogger.Instance);

        var running = inbound.RunAsync(new InboundDelivery(connection, handler, output: null, Options, new LogThrottle(TimeProvider.System), NullLogger.Instance), CancellationToken.None);

        Assert.True(running.IsCompletedSuccessfully);
    }

    private static bool IsWritten(ExpectedSession expected, List<byte> written)
    {
        foreach (var ping in expected.Pings)
        {
            if (!RawFrame.TryTake(written, out var pong) || pong.FirstByte != (RawFrame.Final | RawFrame.Pong) || !ping.AsSpan().SequenceEqual(pong.Payload))
                return false;
        }

        if (expected.CloseCode == ExpectedSession.Nothing)
            return written.Count == 0;
        return RawFrame.TryTake(written, out var close)
            && close.FirstByte == (RawFrame.Final | RawFrame.Close)
            && ((close.Payload[0] << 8) | close.Payload[1]) == expected.CloseCode
            && written.Count == 0;
    }

    private sealed class KeepingHandler : IConnectionHandler
    {
        public List<byte[]> Messages { get; } = [];

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            foreach (var record in records.Span)
                Messages.Add(record.Payload.ToArray());
            return default;
        }
    }
}
