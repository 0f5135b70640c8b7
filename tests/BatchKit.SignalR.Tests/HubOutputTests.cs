using System.Buffers;
using System.Runtime.CompilerServices;
using BatchKit.SignalR.Hubs;
using BatchKit.Testing;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Protocol;

namespace BatchKit.SignalR.Tests;

public sealed class HubOutputTests
{
    [Theory]
    [InlineData(1000, true)]
    [InlineData(200_000, false)]
    public void A_thread_keeps_the_memory_of_small_messages_alone(int bytes, bool isKept)
    {
        using var buffer = new OutputBuffer(new CollectingTransport());
        var protocol = new WatchedProtocol();
        var output = new HubOutput(buffer, "signalr/hub/", [protocol]);
        // The thread may still have memory of another test.
        Send(output, 200_000);

        Send(output, bytes);
        GC.Collect();

        Assert.Equal(isKept, protocol.LastOutput!.TryGetTarget(out _));
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Send(HubOutput output, int bytes) =>
        Assert.True(output.SendAsync(Some.Group(), "line", [new byte[bytes]], excluded: null, CancellationToken.None).IsCompletedSuccessfully);

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
