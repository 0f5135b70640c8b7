namespace BatchKit.Broadcast.Connections;

/// <summary>A number of messages, and the bytes that they take on the wire.</summary>
internal readonly record struct Amount(long Messages, long Bytes)
{
    public static Amount operator +(Amount left, Amount right) => new(left.Messages + right.Messages, left.Bytes + right.Bytes);

    public static Amount operator -(Amount left, Amount right) => new(left.Messages - right.Messages, left.Bytes - right.Bytes);
}
