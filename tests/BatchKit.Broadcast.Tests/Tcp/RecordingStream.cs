using System.Buffers.Binary;
using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Notes the types of the TLS records that are read through it (RFC 5246, section 6.2.1).</summary>
internal sealed class RecordingStream(Stream inner) : ConnectionStream
{
    public const byte AlertRecord = 21;

    private readonly List<byte> _read = [];

    public byte LastRecordType
    {
        get
        {
            const int headerBytes = 5;
            var bytes = _read.ToArray();
            var (record, next) = (0, 0);
            while (next < bytes.Length)
                (record, next) = (next, next + headerBytes + BinaryPrimitives.ReadUInt16BigEndian(bytes.AsSpan(next + 3)));
            return bytes[record];
        }
    }

    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        var read = await inner.ReadAsync(buffer, cancellationToken);
        _read.AddRange(buffer.Span[..read]);
        return read;
    }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => inner.Write(buffer, offset, count);

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default) => inner.WriteAsync(buffer, cancellationToken);

    public override void Flush() => inner.Flush();
}
