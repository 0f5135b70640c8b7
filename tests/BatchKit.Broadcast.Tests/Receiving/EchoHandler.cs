namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Writes each record back.</summary>
internal sealed class EchoHandler(OutputHandle handle, IOutputBuffer output) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
            output.Write(handle, record.Payload.Span);
        return default;
    }
}
