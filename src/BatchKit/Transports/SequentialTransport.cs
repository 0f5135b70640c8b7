using System.Runtime.InteropServices;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Sends batches one after another, each when the one before is confirmed, so that one that is refused does not affect the others and none overtakes another.</summary>
/// <remarks>Each adapter that sends the application's own messages compiles it in. The delegate throws <see cref="MessageRefusedException"/> for a batch that the next hop will never take.</remarks>
internal sealed class SequentialTransport(Func<MessageBatch, CancellationToken, ValueTask> send) : IBatchTransport
{
    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new BatchOutcome[batches.Length];
        Exception? failure = null;
        for (var index = 0; index < outcomes.Length; index++)
        {
            try
            {
                cancellationToken.ThrowIfCancellationRequested();
                await send(batches.Span[index], cancellationToken).ConfigureAwait(false);
                outcomes[index] = BatchOutcome.Acknowledged;
            }
            catch (MessageRefusedException refused)
            {
                outcomes[index] = BatchOutcome.Refused;
                failure ??= refused;
            }
            catch (Exception exception) when (index > 0)
            {
                // Later batches must not overtake it.
                failure ??= exception;
                break;
            }
        }

        if (failure is not null)
            throw new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), FailureText.MessageOf(failure), failure);
    }

    /// <summary>Runs the application's delegate that makes a message, or a part of it such as its address. What it makes of a batch does not change with the next attempt, so an exception refuses the batch.</summary>
    public static T Create<T>(OutputHandle handle, Func<T> create, string delegateName = "The delegate that creates the message")
    {
        try
        {
            return create() ?? throw new MessageRefusedException($"{delegateName} returned null for output for {handle}.");
        }
        catch (Exception exception) when (exception is not MessageRefusedException)
        {
            throw new MessageRefusedException($"{delegateName} failed for output for {handle}: {FailureText.MessageOf(exception)}", exception);
        }
    }
}
