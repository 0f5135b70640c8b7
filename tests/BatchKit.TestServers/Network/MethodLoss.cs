using System.Buffers.Binary;

namespace BatchKit.TestServers.Network;

/// <summary>Takes what an AMQP client sends apart into frames (AMQP 0-9-1, section 4.2.3), and loses some of those that carry a method.</summary>
/// <param name="method">The method's class and number (section 1.8.3.13).</param>
/// <param name="loses">Called for each such frame; true loses it.</param>
internal sealed class MethodLoss(byte[] method, Func<bool> loses)
{
    public static readonly byte[] BasicAck = [0, 60, 0, 80];
    public static readonly byte[] ChannelOpen = [0, 20, 0, 10];

    private const byte MethodFrame = 1;
    private const int SizeOffset = 3;
    private const int HeaderBytes = 7;
    private const int EndBytes = 1;

    // The beginning of a frame whose end has not come yet.
    private byte[] _begun = [];

    // A connection begins with it, in front of the first frame (section 4.2.2).
    private static ReadOnlySpan<byte> ProtocolHeader => "AMQP\x0\x0\x9\x1"u8;

    /// <summary>Returns what is left of these bytes. The first ones that it is given begin the connection or a frame.</summary>
    public byte[] Filter(ReadOnlySpan<byte> sent)
    {
        byte[] bytes = [.. _begun, .. sent];
        var left = bytes.AsSpan();
        var kept = new List<byte>(bytes.Length);
        if (left.StartsWith(ProtocolHeader))
        {
            kept.AddRange(ProtocolHeader);
            left = left[ProtocolHeader.Length..];
        }

        while (left.Length >= HeaderBytes && left.Length >= FrameBytes(left))
        {
            var frame = left[..FrameBytes(left)];
            if (frame[0] != MethodFrame || !frame[HeaderBytes..].StartsWith(method) || !loses())
                kept.AddRange(frame);
            left = left[frame.Length..];
        }

        _begun = left.ToArray();
        return [.. kept];
    }

    private static int FrameBytes(ReadOnlySpan<byte> frame) => HeaderBytes + BinaryPrimitives.ReadInt32BigEndian(frame[SizeOffset..]) + EndBytes;
}
