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
        var outcomes = Enumerable.Repeat(BatchOutcome.Refused, batches.Length).ToArray();
        for (var index = 0; index < outcomes.Length; index++)
        {
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
            catch (Exception ended) when (ended is InvalidOperationException or IOException)
            {
                // Its batch stays refused.
            }
        }

        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }
}
