namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Answers each record with the record and a line's end.</summary>
internal sealed class EchoHandler(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
            output.Write(connection.Handle, [.. record.Payload.Span, (byte)'\n']);
        return default;
    }
}
