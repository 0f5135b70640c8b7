namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Fails as a broken connection would.</summary>
internal sealed class ThrowingHandler : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => throw new IOException("The handler's own.");
}
