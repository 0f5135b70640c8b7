using System.Collections.Concurrent;
using BatchKit;
using BatchKit.Transports;

namespace FirstTransport;

internal sealed class StreamTransport(ConcurrentDictionary<OutputHandle, Stream> connections) : IBatchTransport
{
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new BatchOutcome[batches.Length];
        for (var index = 0; index < batches.Length; index++)
        {
            try
            {
                outcomes[index] = await TrySendAsync(batches.Span[index], cancellationToken) ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
            }
            catch (Exception exception) when (index > 0)
            {
                // Only this batch and the later ones are sent again.
                throw new BatchSendException([.. outcomes], exception.Message, exception);
            }
        }

        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A connection is gone.");
    }

    private async ValueTask<bool> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!connections.TryGetValue(batch.Handle, out var stream))
            return false;
        try
        {
            await stream.WriteAsync(batch.Payload, cancellationToken);
            return true;
        }
        catch (IOException)
        {
            return false;
        }
    }
}
