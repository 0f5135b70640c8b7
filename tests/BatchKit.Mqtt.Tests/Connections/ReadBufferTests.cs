using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class ReadBufferTests
{
    private const int KeptBytes = 16 * 1024;

    private readonly ReadBuffer _buffer = new();

    [Fact]
    public void What_is_unread_survives_growing_and_moving()
    {
        byte[] sent = [.. Enumerable.Range(0, 200_000).Select(static number => (byte)number)];
        var written = 0;
        var read = new List<byte>();

        while (read.Count < sent.Length)
        {
            var memory = _buffer.GetMemory();
            var count = Math.Min(memory.Length, sent.Length - written);
            sent.AsMemory(written, count).CopyTo(memory);
            _buffer.Advance(count);
            written += count;
            // Some is always left, until there is no more to come.
            var taken = written < sent.Length ? _buffer.Unread.Length / 3 : _buffer.Unread.Length;
            read.AddRange(_buffer.Unread[..taken]);
            _buffer.Consume(taken);
        }

        Assert.Equal(sent, read);
    }

    [Fact]
    public void There_is_always_room()
    {
        for (var bytes = 0; bytes < 1_000_000;)
        {
            var count = _buffer.GetMemory().Length;
            Assert.InRange(count, 1, 2_000_000);
            _buffer.Advance(count);
            bytes += count;
        }
    }

    [Fact]
    public void After_a_large_packet_the_memory_is_given_back()
    {
        while (_buffer.Unread.Length < 1_000_000)
            _buffer.Advance(_buffer.GetMemory().Length);

        _buffer.Consume(_buffer.Unread.Length);

        Assert.InRange(_buffer.GetMemory().Length, KeptBytes, 2 * KeptBytes);
    }
}
