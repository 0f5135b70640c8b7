using System.Threading.Channels;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Keeps the packets that it is given, and may be slow or refuse them.</summary>
internal sealed class RecordingHandler : IPacketHandler
{
    private readonly Channel<byte[]> _packets = Channel.CreateUnbounded<byte[]>();
    private readonly TaskCompletionSource _busy = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public Exception? Failure { get; init; }

    /// <summary>What finishing a read waits for, without looking at its token.</summary>
    public Task Release { get; init; } = Task.CompletedTask;

    /// <summary>Completes when a read with packets is being finished.</summary>
    public Task Busy => _busy.Task;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        if (Failure is not null)
            throw Failure;
        _packets.Writer.TryWrite([(byte)((int)header.Type << 4 | header.Flags), .. body]);
    }

    public async ValueTask FinishReadAsync(CancellationToken cancellationToken)
    {
        if (_packets.Reader.Count == 0)
            return;
        _busy.TrySetResult();
        await Release;
    }

    /// <summary>The next packet: its first byte and its body.</summary>
    public Task<byte[]> NextAsync() => _packets.Reader.ReadAsync().WithinDeadline();

    public int Count => _packets.Reader.Count;
}
