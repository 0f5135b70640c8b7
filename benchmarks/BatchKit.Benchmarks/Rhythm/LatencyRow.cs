using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>From when a task was due to be enqueued until a handler has it: by LISTEN as BatchKit does, or by polling. Both are enqueued by BatchKit, one by one.</summary>
internal sealed class LatencyRow(RhythmStage stage, bool isPolling, int perSecond)
{
    public static readonly string[] Columns = ["", "disk", "tasks/s", "p50, ms", "p99, ms"];

    private readonly string _queue = $"latency-{(isPolling ? "polling" : "listening")}-{perSecond}";
    private readonly PacedTasks _tasks = new(perSecond);
    private readonly List<(double Median, double NinetyNine)> _samples = [];

    public string Name => NameOf(isPolling, perSecond, stage.Disk);

    public static string NameOf(bool isPolling, int perSecond, string disk) =>
        $"{nameof(RhythmBenchmarks)}.{(isPolling ? "Polling" : "Listening")}At{perSecond}[Disk={disk}]";

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
        await using var producer = new QueueProducer(stage, _queue, buffers: 1);
        await using var workers = await StartAsync();
        return await _tasks.RunAsync(duration, producer);
    }

    public IEnumerable<string> Describe() =>
    [
        isPolling ? "10 workers that poll each 100 ms" : "BatchKit, 10 workers",
        stage.Disk,
        $"{perSecond}",
        $"{Quantile.Of(_samples.Select(sample => sample.Median), 0.5):0.00}",
        $"{Quantile.Of(_samples.Select(sample => sample.NinetyNine), 0.5):0.00}",
    ];

    private async Task<IAsyncDisposable> StartAsync()
    {
        if (isPolling)
        {
            var polling = new PollingWorkers(stage, _queue, payload => _tasks.Handle(payload));
            await polling.StartAsync();
            return polling;
        }

        var receiver = new PostgresQueueReceiver(stage.DataSource, new PostgresQueueReceiverOptions { Queue = _queue }, new StampHandler(_tasks));
        await receiver.StartAsync(CancellationToken.None);
        return receiver;
    }
}
