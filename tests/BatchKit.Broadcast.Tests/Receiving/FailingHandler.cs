namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Writes a reply and fails, at once or after a wait.</summary>
internal sealed class FailingHandler(OutputHandle handle, IOutputBuffer output, bool failsLater) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        output.Write(handle, "a reply"u8);
        return failsLater ? FailLaterAsync() : throw new InvalidOperationException("as told");
    }

    private static async ValueTask FailLaterAsync()
    {
        await Task.Yield();
        throw new InvalidOperationException("as told");
    }
}
