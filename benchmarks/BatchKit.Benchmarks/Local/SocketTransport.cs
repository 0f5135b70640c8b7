using BatchKit.Transports;

namespace BatchKit.Benchmarks.Local;

/// <summary>The shortest last hop: a batch's bytes in one write to the player's socket.</summary>
internal sealed class SocketTransport(SocketEnds ends) : IBatchTransport
{
    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
            ends.Send(batch.Payload.Span);
        return default;
    }
}
