using System.Buffers.Binary;

namespace BatchKit.TestServers.Network;

/// <summary>Takes what an AMQP client sends apart into frames (AMQP 0-9-1, section 4.2.3), and loses some of those that acknowledge a delivery.</summary>
internal sealed class AcknowledgementLoss(Func<bool> loses)
{
    private const byte MethodFrame = 1;
    private const int SizeOffset = 3;
    private const int HeaderBytes = 7;
    private const int EndBytes = 1;

    // The beginning of a frame whose end has not come yet.
    private byte[] _begun = [];

    // The class and the method (section 1.8.3.13).
    private static ReadOnlySpan<byte> BasicAck => [0, 60, 0, 80];

    /// <summary>Returns what is left of these bytes. The first ones that it is given begin a frame.</summary>
    public byte[] Filter(ReadOnlySpan<byte> sent)
    {
        byte[] bytes = [.. _begun, .. sent];
        var left = bytes.AsSpan();
        var kept = new List<byte>(bytes.Length);
        while (left.Length >= HeaderBytes && left.Length >= FrameBytes(left))
        {
            var frame = left[..FrameBytes(left)];
            if (frame[0] != MethodFrame || !frame[HeaderBytes..].StartsWith(BasicAck) || !loses())
                kept.AddRange(frame);
            left = left[frame.Length..];
        }

        _begun = left.ToArray();
        return [.. kept];
    }

    private static int FrameBytes(ReadOnlySpan<byte> frame) => HeaderBytes + BinaryPrimitives.ReadInt32BigEndian(frame[SizeOffset..]) + EndBytes;
}
