using BatchKit.Transports;

namespace BatchKit.Postgres.Schema;

/// <summary>A message's header as a row keeps it: a frame with one empty message, so that there is one format of headers.</summary>
internal static class StoredHeader
{
    public static byte[] Write(OutputHandle handle, MessageHeader header) => throw new NotSupportedException($"{handle} {header is null}");

    public static MessageHeader? Read(ReadOnlyMemory<byte> stored) => throw new NotSupportedException($"{stored} {typeof(MessageBatch)}");
}
