using System.Collections.Concurrent;
using BatchKit;
using BatchKit.Transports;
using Google.Protobuf;
using Grpc.Core;

namespace Streams;

internal sealed class GameService(StreamTransport streams, IOutputBuffer output) : Game.GameBase
{
    public override async Task Listen(Player request, IServerStreamWriter<Output> stream, ServerCallContext context)
    {
        var player = OutputHandle.Connection(request.Id);
        var serving = streams.ServeAsync(player, stream, context.CancellationToken);
        using (output.BeginBufferingScope(player))
            for (var line = 1; line <= 1000; line++)
                output.Write(player, $"line {line}");
        await serving;
    }
}

internal sealed class StreamTransport : IBatchTransport
{
    private readonly ConcurrentDictionary<OutputHandle, IServerStreamWriter<Output>> _streams = new();

    public async Task ServeAsync(OutputHandle player, IServerStreamWriter<Output> stream, CancellationToken ended)
    {
        _streams[player] = stream;
        await Task.Delay(Timeout.Infinite, ended).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _streams.TryRemove(KeyValuePair.Create(player, stream));
    }

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var outcomes = new List<BatchOutcome>();
        foreach (var batch in batches.ToArray())
            outcomes.Add(await TrySendAsync(batch, cancellationToken));
        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }

    private async Task<BatchOutcome> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!_streams.TryGetValue(batch.Handle, out var stream))
            return BatchOutcome.Refused;
        var output = new Output();
        for (var index = 0; index < batch.Count; index++)
            output.Lines.Add(UnsafeByteOperations.UnsafeWrap(batch[index].Payload));
        try
        {
            await stream.WriteAsync(output, cancellationToken);
            return BatchOutcome.Acknowledged;
        }
        catch (Exception exception) when (exception is InvalidOperationException or IOException)
        {
            return BatchOutcome.Refused;
        }
    }
}
