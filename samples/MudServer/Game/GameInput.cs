using System.Collections.Immutable;
using System.Threading.Channels;
using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>The last hop of players' input: a bounded queue that the game loop reads.</summary>
/// <remarks>A full queue holds up the hop before, down to the sockets.</remarks>
/// <param name="discardsWhenStopped">
/// True where the connections end with the game, so that nobody will miss what comes after its end. False where a broker keeps it for the
/// next game.
/// </param>
internal sealed class GameInput(bool discardsWhenStopped) : IBatchTransport
{
    private const int MaxWaitingBatches = 1024;

    private readonly Channel<InputBatch> _batches =
        Channel.CreateBounded<InputBatch>(new BoundedChannelOptions(MaxWaitingBatches) { SingleReader = true });

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches.Span[index];
            if (!batch.Handle.IsConnection)
                continue;
            try
            {
                await _batches.Writer.WriteAsync(InputBatch.Read(batch), cancellationToken);
            }
            catch (ChannelClosedException) when (discardsWhenStopped)
            {
                return;
            }
            catch (Exception exception) when (index > 0)
            {
                throw new BatchSendException(FirstAcknowledged(batches.Length, index), "The game took only some of the input.", exception);
            }
        }
    }

    public IAsyncEnumerable<InputBatch> ReadAllAsync() => _batches.Reader.ReadAllAsync();

    /// <summary>Takes no more; what waits is still read.</summary>
    public void Complete() => _batches.Writer.TryComplete();

    private static ImmutableArray<BatchOutcome> FirstAcknowledged(int count, int acknowledged) =>
        [.. Enumerable.Range(0, count).Select(index => index < acknowledged ? BatchOutcome.Acknowledged : BatchOutcome.Unacknowledged)];
}
