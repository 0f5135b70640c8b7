using System.Collections.Concurrent;
using System.Diagnostics.Metrics;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class QueueMetricsTests(PostgresFixture fixture)
{
    [Fact]
    public async Task The_instruments_show_what_became_of_the_messages_and_what_waits()
    {
        var handler = new ScriptedHandler(static (batch, _) =>
        {
            if (ClaimScene.TextOf(batch[0]) == "bad")
                batch[0].Refuse("It is bad.");
            return ClaimScene.TextOf(batch[0]) == "late" && batch[0].Attempt == 1 ? throw new IOException("once") : ValueTask.CompletedTask;
        });
        using var readings = new Readings();
        await using var claims = await ClaimScene.OpenAsync(fixture, static options => (options.BatchSize, options.RetryDelay, options.PollInterval) = (1, TimeSpan.FromMilliseconds(10), TimeSpan.FromMilliseconds(50)));
        await using var receiver = new PostgresQueueReceiver(claims.Schema.DataSource, claims.Options, handler, meterFactory: readings.Factory);
        await claims.InsertAsync("good", "bad", "late");
        await claims.InsertDelayedAsync("delayed", TimeSpan.FromHours(1));

        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await Until.TrueAsync(() => receiver.GetStatistics() is { CompletedMessages: 2, BuriedMessages: 1 });
        await Until.TrueAsync(() => receiver.Depth is { Delayed: 1 });
        var read = readings.Read();

        Assert.Equal((2, 1, 1), (read["batchkit.queue.messages Completed"], read["batchkit.queue.messages Dead"], read["batchkit.queue.messages Retried"]));
        Assert.Equal((0, 0), (read["batchkit.queue.timeouts "], read["batchkit.queue.abandoned "]));
        Assert.Equal(1, read["batchkit.queue.depth Delayed"]);
        Assert.InRange(read["batchkit.queue.age "], 0, 60);
        Assert.Equal([null, null, null, "System.IO.IOException"], readings.Durations.Order(StringComparer.Ordinal));
        Assert.Equal(["tasks"], readings.Queues.Distinct());
    }

    [Fact]
    public async Task What_no_one_observes_is_not_read_and_after_the_stop_nothing_is_shown()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler());
        using var readings = new Readings();
        await using var observed = new PostgresQueueReceiver(scene.Claims.Schema.DataSource, scene.Claims.Options, new ScriptedHandler(), meterFactory: readings.Factory);
        await scene.StartAsync();
        await observed.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await Until.TrueAsync(() => observed.Depth is not null);
        await scene.Claims.InsertAsync("a");
        await Until.TrueAsync(() => observed.GetStatistics().CompletedMessages + scene.Statistics.CompletedMessages == 1);

        await observed.StopAsync(TestContext.Current.CancellationToken).WithinDeadline();

        Assert.Null(scene.Receiver.Depth);
        Assert.DoesNotContain(readings.Read().Keys, static name => name.StartsWith("batchkit.queue.depth", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_listener_that_throws_harms_no_message()
    {
        using var readings = new Readings(static () => throw new InvalidOperationException("The listener is broken."));
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await using var receiver = new PostgresQueueReceiver(claims.Schema.DataSource, claims.Options, new ScriptedHandler(), meterFactory: readings.Factory);
        await claims.InsertAsync("a");

        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 1);

        Assert.NotNull(receiver.Degradation);
    }

    /// <summary>The instruments of one factory.</summary>
    private sealed class Readings : IMeterFactory
    {
        private readonly ConcurrentDictionary<string, double> _values = new(StringComparer.Ordinal);
        private readonly ConcurrentQueue<string?> _durations = new();
        private readonly ConcurrentQueue<string> _queues = new();
        private readonly MeterListener _listener = new();
        private readonly List<Meter> _meters = [];
        private readonly Action? _recording;

        public Readings(Action? recording = null)
        {
            _recording = recording;
            _listener.InstrumentPublished = (instrument, own) =>
            {
                if (_meters.Contains(instrument.Meter))
                    own.EnableMeasurementEvents(instrument);
            };
            _listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Add(instrument, value, tags));
            _listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => Add(instrument, value, tags));
            _listener.Start();
        }

        public IMeterFactory Factory => this;

        /// <summary>The error type of each handled batch.</summary>
        public IEnumerable<string?> Durations => _durations;

        public IEnumerable<string> Queues => _queues;

        public Meter Create(MeterOptions options)
        {
            _meters.Add(new Meter(options));
            return _meters[^1];
        }

        /// <summary>The value of each instrument, with its outcome or state.</summary>
        public ConcurrentDictionary<string, double> Read()
        {
            _values.Clear();
            _listener.RecordObservableInstruments();
            return _values;
        }

        public void Dispose()
        {
            _listener.Dispose();
            _meters.ForEach(static meter => meter.Dispose());
        }

        private void Add(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
        {
            var (queue, kind, error) = ("", "", (string?)null);
            foreach (var (name, text) in tags)
            {
                queue = name == "messaging.destination.name" ? (string)text! : queue;
                kind = name is "batchkit.outcome" or "batchkit.state" ? (string)text! : kind;
                error = name == "error.type" ? (string)text! : error;
            }

            _queues.Enqueue(queue);
            if (instrument is Histogram<double>)
            {
                _durations.Enqueue(error);
                _recording?.Invoke();
            }
            else
            {
                _values[$"{instrument.Name} {kind}"] = value;
            }
        }
    }
}
