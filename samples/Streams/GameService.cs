using System.Collections.Concurrent;
using BatchKit;
using BatchKit.Transports;
using Google.Protobuf;
using Grpc.Core;

namespace Streams;

internal sealed class GameService(StreamTransport transport, IOutputBuffer output) : Game.GameBase
{
    public override async Task Listen(Player request, IServerStreamWriter<Output> stream, ServerCallContext context)
    {
        var player = OutputHandle.Connection(request.Id);
        transport.Streams[player] = stream;
        using (output.BeginBufferingScope(player))
            for (var line = 1; line <= 1000; line++)
                output.Write(player, $"line {line}");
        await Task.Delay(Timeout.Infinite, context.CancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        transport.Streams.TryRemove(new(player, stream));
    }
}

internal sealed class StreamTransport : IBatchTransport
{
    public ConcurrentDictionary<OutputHandle, IServerStreamWriter<Output>> Streams { get; } = new();

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new BatchOutcome[batches.Length];
        for (var index = 0; index < batches.Length && !cancellationToken.IsCancellationRequested; index++)
        {
            outcomes[index] = BatchOutcome.Refused;
            var batch = batches.Span[index];
            if (!Streams.TryGetValue(batch.Handle, out var stream))
                continue;
            var output = new Output();
            for (var line = 0; line < batch.Count; line++)
                output.Lines.Add(UnsafeByteOperations.UnsafeWrap(batch[line].Payload));
            try
            {
                await stream.WriteAsync(output, cancellationToken);
                outcomes[index] = BatchOutcome.Acknowledged;
            }
            catch (Exception) when (!cancellationToken.IsCancellationRequested)
            {
                // Its call has ended: it stays refused.
            }
            catch (Exception)
            {
                outcomes[index] = BatchOutcome.Unacknowledged;
            }
        }

        if (outcomes.Any(outcome => outcome != BatchOutcome.Acknowledged))
            throw new BatchSendException([.. outcomes], "A player is gone, or does not read.");
    }
}
