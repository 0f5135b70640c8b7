using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.OverBatchKit;
using BatchKit.Benchmarks.OverRabbitMq;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>What does a message cost when lists of 1000 follow each other without a pause?</summary>
[MemoryDiagnoser]
[NeedsRabbitMq]
public class SustainedBenchmarks
{
    private const int Lists = 100;

    // The slow way gets fewer lists: what is compared is the time of a message.
    private const int InFlightLists = 5;

    private IDolist _dolist = null!;

    [GlobalSetup(Target = nameof(RabbitMqInFlight))]
    public void StartRabbitMqInFlight() => _dolist = new InFlight(RabbitMqEnds.StartAsync().GetAwaiter().GetResult());

    [GlobalSetup(Target = nameof(RabbitMqByHand))]
    public void StartRabbitMqByHand() => _dolist = new RabbitMqByHand(RabbitMqEnds.StartAsync().GetAwaiter().GetResult());

    [GlobalSetup(Target = nameof(BatchKitOverRabbitMq))]
    public void StartBatchKitOverRabbitMq() => _dolist = new BatchKitScoped(BatchKitEnds.StartOnRabbitMqAsync().GetAwaiter().GetResult());

    [GlobalSetup(Target = nameof(BatchKitOverMassTransit))]
    public void StartBatchKitOverMassTransit() => _dolist = new BatchKitScoped(BatchKitEnds.StartOnMassTransitAsync().GetAwaiter().GetResult());

    [GlobalCleanup]
    public void Stop() => _dolist.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [Benchmark(Baseline = true, OperationsPerInvoke = InFlightLists * Lines.DefaultCount)]
    public Task RabbitMqInFlight() => _dolist.RunAsync(InFlightLists);

    [Benchmark(OperationsPerInvoke = Lists * Lines.DefaultCount)]
    public Task RabbitMqByHand() => _dolist.RunAsync(Lists);

    [Benchmark(OperationsPerInvoke = Lists * Lines.DefaultCount)]
    public Task BatchKitOverRabbitMq() => _dolist.RunAsync(Lists);

    [Benchmark(OperationsPerInvoke = Lists * Lines.DefaultCount)]
    public Task BatchKitOverMassTransit() => _dolist.RunAsync(Lists);
}
