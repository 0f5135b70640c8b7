namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Does nothing.</summary>
internal sealed class DeafHandler : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
}
