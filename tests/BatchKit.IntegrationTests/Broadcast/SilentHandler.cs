using BatchKit.Broadcast;

namespace BatchKit.IntegrationTests.Broadcast;

/// <summary>Answers nothing.</summary>
internal sealed class SilentHandler : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
}
