using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>From when a task was due to be enqueued, one by one, until a handler has it.</summary>
internal sealed class LatencyRow(RhythmStage stage, LatencyWay way, int perSecond)
{
    public static readonly string[] Columns = ["", "disk", "tasks/s", "p50, ms", "p99, ms"];

    private readonly string _queue = $"latency-{way}-{perSecond}";
    private readonly PacedTasks _tasks = new(perSecond);
    private readonly List<(double Median, double NinetyNine)> _samples = [];

    public string Name => NameOf(way, perSecond, stage.Disk);

    public static string NameOf(LatencyWay way, int perSecond, string disk) =>
        $"{nameof(RhythmBenchmarks)}.{way}At{perSecond}[Disk={disk}]";

    public async Task<GateReading> MeasureAsync(TimeSpan duration)
    {
        var sample = await RunAsync(duration);
        _samples.Add(sample);
        return new GateReading { [GateMetric.Median] = sample.Median, [GateMetric.NinetyNine] = sample.NinetyNine };
    }

    public async Task<(double Median, double NinetyNine)> RunAsync(TimeSpan duration)
    {
        await stage.EmptyAsync();
        await stage.SettleAsync(RhythmStage.Messages);
        await using var workers = await StartWorkersAsync();
        if (way == LatencyWay.ByHand)
        {
            await using var rows = new RowsByHand(stage, _queue);
            await rows.StartAsync();
            return await _tasks.RunAsync(duration, payload => rows.Write(payload));
        }

        await using var producer = new QueueProducer(stage, _queue, buffers: 1);
        return await _tasks.RunAsync(duration, payload => producer.Write(payload));
    }

    public IEnumerable<string> Describe() =>
    [
        way switch
        {
            LatencyWay.Listening => "BatchKit, 10 workers",
            LatencyWay.ByHand => "by hand: a row and a NOTIFY each, LISTEN, DELETE … RETURNING",
            _ => "10 workers that poll each 100 ms",
        },
        stage.Disk,
        $"{perSecond}",
        $"{Quantile.Of(_samples.Select(sample => sample.Median), 0.5):0.00}",
        $"{Quantile.Of(_samples.Select(sample => sample.NinetyNine), 0.5):0.00}",
    ];

    private async Task<IAsyncDisposable> StartWorkersAsync()
    {
        if (way != LatencyWay.Listening)
        {
            var workers = new WorkersByHand(stage, _queue, isPolling: way == LatencyWay.Polling, payload => _tasks.Handle(payload));
            await workers.StartAsync();
            return workers;
        }

        var receiver = new PostgresQueueReceiver(stage.DataSource, new PostgresQueueReceiverOptions { Queue = _queue }, new StampHandler(_tasks));
        await receiver.StartAsync(CancellationToken.None);
        return receiver;
    }
}

/// <summary>Notes when tasks arrive.</summary>
internal sealed class StampHandler(PacedTasks tasks) : IMessageHandler<QueueMessage>
{
    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        for (var index = 0; index < batch.Count; index++)
            tasks.Handle(batch[index].Payload.Span);
        return default;
    }
}
