using System.Collections.Concurrent;
using System.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;
using OpenTelemetry;
using OpenTelemetry.Trace;

namespace BatchKit.Tests.Diagnostics;

/// <summary>The span of each send: a root with links to its writers, which leaves its writer's current span alone.</summary>
public sealed class TracingTests : IDisposable
{
    private const int Sends = 1000;

    private readonly string _name = Some.Name("route");
    private readonly ActivitySource _source;
    private readonly CollectingTransport _arrived = new();
    private readonly List<Activity> _sends = [];

    public TracingTests() => _source = new ActivitySource(_name);

    public void Dispose() => _source.Dispose();

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Each_of_many_sends_is_a_root_that_links_to_its_writer_alone(bool inline)
    {
        using var listener = Listen(Collect);

        var writers = await SendManyAsync(inline);

        AssertRootsThatLinkTo(writers);
    }

    [Fact]
    public async Task OpenTelemetry_gets_each_send_as_a_root_that_links_to_its_writer_alone()
    {
        using var exporter = new CallingExporter(Collect);
        using var processor = new SimpleActivityExportProcessor(exporter);
        using var provider = Sdk.CreateTracerProviderBuilder().AddSource("BatchKit", _name).AddProcessor(processor).Build();

        var writers = await SendManyAsync(inline: true);
        provider.ForceFlush();

        AssertRootsThatLinkTo(writers);
    }

    [Fact]
    public async Task A_writer_without_a_span_has_none_after_a_send()
    {
        using var listener = Listen(Collect);
        await using var buffer = new OutputBuffer([new OutputRoute(_name, _arrived)]);
        Activity.Current = null;

        buffer.Write(Some.Connection(), "line 0");
        var afterWrite = Activity.Current;
        await buffer.FlushAsync();

        Assert.Null(afterWrite);
        Assert.Null(Activity.Current);
        Assert.Empty(Assert.Single(_sends).Links);
    }

    [Theory]
    [InlineData(BatchOutcome.Acknowledged)]
    [InlineData(BatchOutcome.Refused)]
    [InlineData(BatchOutcome.Unacknowledged)]
    public async Task A_span_ends_before_its_messages_are_settled_so_that_a_caller_that_awaits_them_finds_it(BatchOutcome outcome)
    {
        var transport = new ScriptedTransport(_arrived);
        if (outcome != BatchOutcome.Acknowledged)
            transport.Answer(outcome);

        await AssertEndsBeforeSettledAsync(transport, new ManualTimeProvider(), stopsAtOnce: outcome == BatchOutcome.Unacknowledged);
    }

    [Fact]
    public async Task A_span_ends_before_its_messages_are_settled_though_the_clock_fails_between_two_tries()
    {
        var clock = new BreakingClock();
        var transport = new ScriptedTransport(_arrived).Then((_, _) =>
        {
            clock.BreakNextTimer();
            throw new IOException();
        });

        await AssertEndsBeforeSettledAsync(transport, clock, stopsAtOnce: false);
    }

    private async Task AssertEndsBeforeSettledAsync(ScriptedTransport transport, TimeProvider clock, bool stopsAtOnce)
    {
        await using var buffer = new OutputBuffer([new OutputRoute(_name, transport)], timeProvider: clock);
        var pendingAtEnd = new ConcurrentQueue<long>();
        using var listener = Listen(activity =>
        {
            if (IsSend(activity))
                pendingAtEnd.Enqueue(buffer.GetStatistics().PendingMessages);
        });

        buffer.Write(Some.Connection(), "line"u8);
        await Until.TrueAsync(() => transport.Sends == 1);
        if (stopsAtOnce)
            await buffer.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();

        // A flush would throw or not, as it comes before the refusal or after it.
        await Until.TrueAsync(() => buffer.GetStatistics().PendingMessages == 0);
        Assert.Equal([1], pendingAtEnd);
    }

    private async Task<List<ActivityContext>> SendManyAsync(bool inline)
    {
        var writers = new List<ActivityContext>();
        await using var buffer = new OutputBuffer([new OutputRoute(_name, new CollectingTransport(inline))], timeProvider: new ManualTimeProvider());
        var handle = Some.Connection();
        for (var send = 0; send < Sends; send++)
        {
            using var writer = _source.StartActivity("writes");
            writers.Add(writer!.Context);
            buffer.Write(handle, "line"u8);
            Assert.Same(writer, Activity.Current);
            await buffer.FlushAsync(handle).WithinDeadline();
            Assert.Same(writer, Activity.Current);
        }

        return writers;
    }

    private void AssertRootsThatLinkTo(List<ActivityContext> writers)
    {
        Assert.Equal(Sends, _sends.Count);
        Assert.All(_sends, send => Assert.Null(send.Parent));
        Assert.All(_sends, send => Assert.Null(send.ParentId));
        Assert.Equal(Sends, _sends.Select(send => send.TraceId).Distinct().Count());
        Assert.Equal(writers, _sends.Select(send => Assert.Single(send.Links).Context));
    }

    private ActivityListener Listen(Action<Activity> ended)
    {
        var listener = new ActivityListener
        {
            ShouldListenTo = source => source.Name is "BatchKit" || source.Name == _name,
            Sample = static (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = ended,
        };
        ActivitySource.AddActivityListener(listener);
        return listener;
    }

    private bool IsSend(Activity activity) => activity.DisplayName == $"send {_name}";

    private void Collect(Activity activity)
    {
        if (!IsSend(activity))
            return;
        lock (_sends)
            _sends.Add(activity);
    }

    private sealed class BreakingClock : TimeProvider
    {
        private int _breaks;

        public void BreakNextTimer() => Volatile.Write(ref _breaks, 1);

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
            Interlocked.Exchange(ref _breaks, 0) == 1 ? throw new NotSupportedException() : base.CreateTimer(callback, state, dueTime, period);
    }

    private sealed class CallingExporter(Action<Activity> collect) : BaseExporter<Activity>
    {
        public override ExportResult Export(in Batch<Activity> batch)
        {
            foreach (var activity in batch)
                collect(activity);
            return ExportResult.Success;
        }
    }
}
