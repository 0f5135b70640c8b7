using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.OverBatchKit;
using BatchKit.Benchmarks.OverNats;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>How long do the same messages take over a JetStream of NATS, stored before they count as sent?</summary>
[MemoryDiagnoser]
[NeedsNats]
public class NatsDolistBenchmarks
{
    private IDolist _dolist = null!;

    [GlobalSetup(Target = nameof(JetStreamAwaited))]
    public void StartJetStreamAwaited() => Start(async () => new Awaited(await NatsEnds.StartAsync()));

    [GlobalSetup(Target = nameof(JetStreamConcurrent))]
    public void StartJetStreamConcurrent() => Start(async () => new NatsConcurrent(await NatsEnds.StartAsync()));

    [GlobalSetup(Target = nameof(BatchKitOverNats))]
    public void StartBatchKitOverNats() => Start(async () => new BatchKitScoped(await BatchKitEnds.StartOnNatsAsync()));

    [GlobalCleanup]
    public void Stop() => _dolist.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [Benchmark(Baseline = true)]
    public Task JetStreamAwaited() => _dolist.RunAsync(1);

    [Benchmark]
    public Task JetStreamConcurrent() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitOverNats() => _dolist.RunAsync(1);

    // BenchmarkDotNet's in-process toolchain does not await an asynchronous set-up.
    private void Start(Func<Task<IDolist>> start) => _dolist = start().GetAwaiter().GetResult();
}
