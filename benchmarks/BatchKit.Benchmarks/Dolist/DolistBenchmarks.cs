using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.OverBatchKit;
using BatchKit.Benchmarks.OverMassTransit;
using BatchKit.Benchmarks.OverRabbitMq;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>How long do 1000 messages of 12 bytes take over RabbitMQ, from the first write until the consumer has the last byte?</summary>
[MemoryDiagnoser]
[NeedsRabbitMq]
public class DolistBenchmarks
{
    private IDolist _dolist = null!;

    [GlobalSetup(Target = nameof(MassTransitAwaited))]
    public void StartMassTransitAwaited() => Start(async () => new Awaited(await MassTransitEnds.StartOnRabbitMqAsync()));

    [GlobalSetup(Target = nameof(MassTransitInFlight))]
    public void StartMassTransitInFlight() => Start(async () => new InFlight(await MassTransitEnds.StartOnRabbitMqAsync(isOrdered: false)));

    [GlobalSetup(Target = nameof(MassTransitByHand))]
    public void StartMassTransitByHand() => Start(async () => new MassTransitByHand(await MassTransitEnds.StartOnRabbitMqAsync()));

    [GlobalSetup(Target = nameof(RabbitMqAwaited))]
    public void StartRabbitMqAwaited() => Start(async () => new Awaited(await RabbitMqEnds.StartAsync()));

    [GlobalSetup(Target = nameof(RabbitMqInFlight))]
    public void StartRabbitMqInFlight() => Start(async () => new InFlight(await RabbitMqEnds.StartAsync()));

    [GlobalSetup(Target = nameof(RabbitMqByHand))]
    public void StartRabbitMqByHand() => Start(async () => new RabbitMqByHand(await RabbitMqEnds.StartAsync()));

    [GlobalSetup(Target = nameof(BatchKitOverMassTransit))]
    public void StartBatchKitOverMassTransit() => Start(async () => new BatchKitScoped(await BatchKitEnds.StartOnMassTransitAsync()));

    [GlobalSetup(Target = nameof(BatchKitOwnMessagesOverMassTransit))]
    public void StartBatchKitOwnMessagesOverMassTransit() => Start(async () => await BatchKitOwnMessages.StartAsync());

    [GlobalSetup(Target = nameof(BatchKitOverRabbitMq))]
    public void StartBatchKitOverRabbitMq() => Start(async () => new BatchKitScoped(await BatchKitEnds.StartOnRabbitMqAsync()));

    [GlobalSetup(Target = nameof(BatchKitUnscopedOverMassTransit))]
    public void StartBatchKitUnscopedOverMassTransit() => Start(async () => new BatchKitUnscoped(await BatchKitEnds.StartOnMassTransitAsync()));

    [GlobalSetup(Target = nameof(BatchKitUnscopedOverRabbitMq))]
    public void StartBatchKitUnscopedOverRabbitMq() => Start(async () => new BatchKitUnscoped(await BatchKitEnds.StartOnRabbitMqAsync()));

    [GlobalCleanup]
    public void Stop() => _dolist.DisposeAsync().AsTask().GetAwaiter().GetResult();

    [Benchmark(Baseline = true)]
    public Task MassTransitAwaited() => _dolist.RunAsync(1);

    [Benchmark]
    public Task MassTransitInFlight() => _dolist.RunAsync(1);

    [Benchmark]
    public Task MassTransitByHand() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitOverMassTransit() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitOwnMessagesOverMassTransit() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitUnscopedOverMassTransit() => _dolist.RunAsync(1);

    [Benchmark]
    public Task RabbitMqAwaited() => _dolist.RunAsync(1);

    [Benchmark]
    public Task RabbitMqInFlight() => _dolist.RunAsync(1);

    [Benchmark]
    public Task RabbitMqByHand() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitOverRabbitMq() => _dolist.RunAsync(1);

    [Benchmark]
    public Task BatchKitUnscopedOverRabbitMq() => _dolist.RunAsync(1);

    // BenchmarkDotNet's in-process toolchain does not await an asynchronous set-up.
    private void Start(Func<Task<IDolist>> start) => _dolist = start().GetAwaiter().GetResult();
}
