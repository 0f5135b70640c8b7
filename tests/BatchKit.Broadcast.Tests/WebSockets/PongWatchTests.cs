using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Tests.WebSockets;

public sealed class PongWatchTests
{
    private const int Final = RawFrame.Final;
    private static readonly byte[] Pong = RawFrame.Masked(Final | RawFrame.Pong, []);

    public static TheoryData<byte[]> OtherFrames =>
    [
        RawFrame.Masked(Final | RawFrame.Text, []),
        RawFrame.Masked(Final | RawFrame.Text, [0x8A, 0x80, 0x8A, 0x80]),
        RawFrame.Masked(Final | RawFrame.Binary, new byte[126]),
        RawFrame.Masked(RawFrame.Text, new byte[70_000]),
        RawFrame.Masked(Final | RawFrame.Ping, new byte[125]),
        RawFrame.Unmasked(Final | RawFrame.Text, "x"u8),
        RawFrame.MaskedClose(1000),
    ];

    [Theory]
    [MemberData(nameof(OtherFrames))]
    public void A_pong_is_seen_behind_other_frames_and_not_before(byte[] others)
    {
        var watch = new PongWatch();

        Assert.False(watch.HasPong(others));
        Assert.True(watch.HasPong(Pong));
    }

    [Theory]
    [MemberData(nameof(OtherFrames))]
    public void A_pong_is_seen_when_bytes_come_one_at_a_time(byte[] others)
    {
        var watch = new PongWatch();
        byte[] bytes = [.. others, .. Pong];

        var seen = Array.FindIndex(bytes, value => watch.HasPong([value]));

        Assert.InRange(seen, others.Length + 1, bytes.Length - 1);
    }
}
