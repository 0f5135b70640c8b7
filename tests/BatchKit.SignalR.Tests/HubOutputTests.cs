using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Hubs;
using BatchKit.Testing;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.SignalR.Tests;

public sealed class HubOutputTests
{
    private static readonly ClientLimits Limits = new(new SignalROptions(), TimeProvider.System, NullLogger.Instance);

    [Theory]
    [InlineData(1000, true)]
    [InlineData(200_000, false)]
    public void A_thread_keeps_the_memory_of_small_messages_alone(int bytes, bool isKept)
    {
        using var buffer = new OutputBuffer(new CollectingTransport());
        var protocol = new WatchedProtocol();
        var output = new HubOutput(buffer, "signalr/hub/", [protocol], Limits);
        // The thread may still have memory of another test.
        Send(output, 200_000);

        Send(output, bytes);
        GC.Collect();

        Assert.Equal(isKept, protocol.LastOutput!.TryGetTarget(out _));
    }

    [Fact]
    public async Task A_message_that_is_refused_at_once_is_told_to_who_awaits_its_send()
    {
        var transport = new ScriptedTransport(new CollectingTransport(), sendsWithoutBlocking: true);
        transport.RefuseWhere(static _ => true);
        await using var buffer = new OutputBuffer(transport);
        var output = new HubOutput(buffer, "signalr/hub/", [new JsonHubProtocol()], Limits);

        await Assert.ThrowsAsync<OutputDeliveryException>(() => output.SendAsync(Some.Group(), protocol: null, "line", [], excluded: null, CancellationToken.None).WithinDeadline());
    }

    [Fact]
    public async Task A_message_for_several_handles_of_which_one_is_refused_reaches_the_others_and_its_send_throws()
    {
        var (collecting, lost) = (new CollectingTransport(), Some.Group());
        var transport = new ScriptedTransport(collecting, sendsWithoutBlocking: true);
        transport.RefuseWhere(batch => batch.Handle == lost);
        await using var buffer = new OutputBuffer(transport);
        var output = new HubOutput(buffer, "signalr/hub/", [new JsonHubProtocol()], Limits);

        await Assert.ThrowsAsync<OutputDeliveryException>(() => output.SendAsync([Some.Group(), lost, Some.Group()], "line", [], CancellationToken.None).WithinDeadline());

        Assert.Equal(2, collecting.MessageCount);
    }

    [Fact]
    public async Task A_message_that_a_full_buffer_drops_is_counted_once_and_told_to_who_awaits_its_send()
    {
        var transport = new ScriptedTransport(new CollectingTransport(), sendsWithoutBlocking: true);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { Overflow = OverflowPolicy.DropNewest, MaxBufferedBytes = 4096, MaxMessageBytes = 1024 });
        var output = new HubOutput(buffer, "signalr/hub/", [new JsonHubProtocol()], Limits);
        while (buffer.TryWrite(Some.Group(), new byte[100]))
            continue;
        var refused = buffer.GetStatistics().RefusedMessages;

        await Assert.ThrowsAsync<OutputDeliveryException>(() => output.SendAsync(Some.Group(), protocol: null, "line", [new string('x', 500)], excluded: null, CancellationToken.None).WithinDeadline());

        Assert.Equal(refused + 1, buffer.GetStatistics().RefusedMessages);
        stalled.Release();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Send(HubOutput output, int bytes) =>
        Assert.True(output.SendAsync(Some.Group(), protocol: null, "line", [new byte[bytes]], excluded: null, CancellationToken.None).IsCompletedSuccessfully);

    /// <summary>Writes an argument of bytes, and remembers where to.</summary>
    private sealed class WatchedProtocol : IHubProtocol
    {
        public WeakReference<IBufferWriter<byte>>? LastOutput { get; private set; }

        public string Name => "watched";

        public int Version => 1;

        public TransferFormat TransferFormat => TransferFormat.Binary;

        public void WriteMessage(HubMessage message, IBufferWriter<byte> output)
        {
            LastOutput = new WeakReference<IBufferWriter<byte>>(output);
            output.Write((byte[])((InvocationMessage)message).Arguments[0]!);
        }

        public ReadOnlyMemory<byte> GetMessageBytes(HubMessage message) => throw new NotSupportedException();

        public bool IsVersionSupported(int version) => true;

        public bool TryParseMessage(ref ReadOnlySequence<byte> input, IInvocationBinder binder, out HubMessage message) => throw new NotSupportedException();
    }
}
