using System.Collections.Concurrent;
using BatchKit.Transports;
using Google.Protobuf;
using Grpc.Core;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Pages.Tests.Grpc;

/// <summary>The program that docs/grpc.md shows.</summary>
internal static class GameServices
{
    public static void Add(IServiceCollection services)
    {
        services.AddGrpc();
        services.AddSingleton<StreamTransport>();
        services.AddBatchKit().UseLocal(provider => provider.GetRequiredService<StreamTransport>());
    }
}

internal sealed class GameService(StreamTransport streams) : Game.GameBase
{
    public override Task Listen(Player request, IServerStreamWriter<Output> stream, ServerCallContext context) =>
        streams.ServeAsync(OutputHandle.Connection(request.Id), stream, context.CancellationToken);
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
        var outcomes = new BatchOutcome[batches.Length];
        for (var index = 0; index < outcomes.Length; index++)
            outcomes[index] = await TrySendAsync(batches.Span[index], cancellationToken) ? BatchOutcome.Acknowledged : BatchOutcome.Refused;
        if (outcomes.Contains(BatchOutcome.Refused))
            throw new BatchSendException([.. outcomes], "A player is gone.");
    }

    private async Task<bool> TrySendAsync(MessageBatch batch, CancellationToken cancellationToken)
    {
        if (!_streams.TryGetValue(batch.Handle, out var stream))
            return false;
        var output = new Output();
        for (var index = 0; index < batch.Count; index++)
            output.Lines.Add(UnsafeByteOperations.UnsafeWrap(batch[index].Payload));
        try
        {
            await stream.WriteAsync(output, cancellationToken);
            return true;
        }
        catch (Exception exception) when (exception is InvalidOperationException or IOException)
        {
            return false;
        }
    }
}
