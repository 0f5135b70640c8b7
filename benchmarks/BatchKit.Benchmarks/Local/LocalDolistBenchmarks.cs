using BatchKit.Benchmarks.Dolist;
using BatchKit.Benchmarks.OverMassTransit;
using BatchKit.Transports;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Local;

/// <summary>Is a scope around 1000 writes, in one process and down to the socket, as good as composing the lines by hand, which is what iter() does?</summary>
[MemoryDiagnoser]
public class LocalDolistBenchmarks
{
    private static readonly OutputHandle Player = OutputHandle.Connection(1);

    private readonly byte[] _composed = new byte[Lines.TotalBytes];
    private Awaited _awaited = null!;
    private SocketEnds _ends = null!;
    private OutputBuffer _output = null!;

    [GlobalSetup(Target = nameof(MassTransitInMemoryAwaited))]
    public void StartMassTransit() => _awaited = new Awaited(MassTransitEnds.StartInMemoryAsync().GetAwaiter().GetResult());

    [GlobalCleanup(Target = nameof(MassTransitInMemoryAwaited))]
    public void StopMassTransit() => _awaited.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [GlobalSetup(Targets = [nameof(BatchKitLocal), nameof(BatchKitLocalWriter), nameof(BatchKitLocalAmbient), nameof(ComposedByHand)])]
    public void StartSocket()
    {
        _ends = new SocketEnds();
        _output = new OutputBuffer(new SocketTransport(_ends));
    }

    [GlobalCleanup(Targets = [nameof(BatchKitLocal), nameof(BatchKitLocalWriter), nameof(BatchKitLocalAmbient), nameof(ComposedByHand)])]
    public void StopSocket()
    {
        _output.DisposeAsync().AsTask().GetAwaiter().GetResult();
        _ends.Dispose();
    }

    [Benchmark(Baseline = true)]
    public Task MassTransitInMemoryAwaited() => _awaited.RunAsync(1);

    [Benchmark]
    public void BatchKitLocalWriter()
    {
        using (var lines = _output.BeginWriting(Player))
        {
            foreach (var line in Lines.All)
                lines.Write(line);
        }

        _ends.AwaitList();
    }

    [Benchmark]
    public void BatchKitLocal()
    {
        using (_output.BeginBufferingScope(Player))
        {
            foreach (var line in Lines.All)
                _output.Write(Player, line);
        }

        _ends.AwaitList();
    }

    [Benchmark]
    public void BatchKitLocalAmbient()
    {
        using (_output.BeginBufferingScope())
        {
            foreach (var line in Lines.All)
                _output.Write(Player, line);
        }

        _ends.AwaitList();
    }

    [Benchmark]
    public void ComposedByHand()
    {
        Lines.CopyTo(_composed);
        _ends.Send(_composed);
        _ends.AwaitList();
    }
}

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
