using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.OverBatchKit;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>How far ahead must the broker send, so that its way back with the acknowledgement costs nothing?</summary>
[MemoryDiagnoser]
[NeedsRabbitMq]
public class PrefetchBenchmarks
{
    private const int Lists = 100;

    private BatchKitScoped _dolist = null!;

    [Params(1, 4, 16, 64)]
    public int Prefetch { get; set; }

    [GlobalSetup]
    public void Start() => _dolist = new BatchKitScoped(BatchKitEnds.StartOnRabbitMqAsync(Prefetch).GetAwaiter().GetResult());

    [GlobalCleanup]
    public void Stop() => _dolist.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [Benchmark(OperationsPerInvoke = Lists * Lines.DefaultCount)]
    public Task Sustained() => _dolist.RunAsync(Lists);
}
