using System.Globalization;
using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.TestSupport;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Dispatch;

/// <summary>A receiver that takes nothing, such as a node whose queue is full, holds up its own output and no other's.</summary>
public sealed class BusyReceiverTests : IAsyncDisposable
{
    private static readonly OutputBufferOptions Options = new()
    {
        RetryDelay = TimeSpan.FromMilliseconds(100),
        MaxRetryDelay = TimeSpan.FromSeconds(5),
        DeliveryTimeout = TimeSpan.FromMinutes(2),
    };

    private readonly OutputHandle _first = Some.Connection(node: 1);
    private readonly OutputHandle _second = Some.Connection(node: 2);
    private readonly OutputHandle _third = Some.Connection(node: 3);
    private readonly OutputHandle _group = Some.Group();
    private readonly FullQueues _queues = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly LogCollector _log = new();
    private readonly OutputBuffer _buffer;

    public BusyReceiverTests() => _buffer = Create(Options);

    public ValueTask DisposeAsync()
    {
        _queues.Full.Clear();
        return StopAsync(_buffer);
    }

    [Fact]
    public void Output_for_another_node_passes_at_once()
    {
        _queues.Full.Add(1);

        Write(_first, "a");
        Write(_second, "b");
        Write(_first, "c");
        Write(_second, "d");

        Assert.Equal(["b", "d"], _queues.Texts(2));
        Assert.Empty(_queues.Texts(1));
    }

    [Fact]
    public void What_waited_arrives_in_order_when_the_node_takes_it()
    {
        _queues.Full.Add(1);
        foreach (var text in new[] { "a", "b", "c" })
        {
            Write(_first, text);
            Write(_second, text);
        }

        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal(["a", "b", "c"], _queues.Texts(1));
        Assert.Equal(["a", "b", "c"], _queues.Texts(2));
        Assert.Equal(0, _buffer.GetStatistics().PendingMessages);
    }

    [Fact]
    public void Output_for_all_nodes_waits_with_it_and_what_comes_after_that_waits_too()
    {
        _queues.Full.Add(1);
        Write(_first, "a");

        Write(_group, "all");
        Write(_second, "b");

        Assert.Empty(_queues.Texts(2));
        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);
        Assert.Equal(["all", "b"], _queues.Texts(2));
        Assert.Equal(["a", "all"], _queues.Texts(1));
    }

    [Fact]
    public void Each_of_several_is_tried_by_itself()
    {
        _queues.Full.UnionWith([1, 3]);
        Write(_first, "a");
        Write(_third, "c");
        Write(_second, "b");

        _queues.Full.Remove(3);
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal((0, 1, 1), (_queues.Texts(1).Count, _queues.Texts(2).Count, _queues.Texts(3).Count));
    }

    [Fact]
    public void It_is_given_up_after_the_delivery_timeout_and_what_came_later_is_still_tried()
    {
        _queues.Full.Add(1);
        Write(_first, "old");
        _clock.Advance(Options.DeliveryTimeout - TimeSpan.FromSeconds(30));
        Write(_first, "new");
        Write(_second, "b");

        _clock.Advance(TimeSpan.FromSeconds(40));
        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal(["new"], _queues.Texts(1));
        Assert.Equal((2, 1), (_buffer.GetStatistics().AcknowledgedMessages, _buffer.GetStatistics().FailedMessages));
    }

    [Fact]
    public void What_waits_behind_it_is_given_up_when_it_is_as_old_not_a_timeout_later()
    {
        _queues.Full.Add(1);
        for (var second = 0; second < 10; second++)
        {
            Write(_first, "line");
            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        _clock.Advance(Options.DeliveryTimeout + (3 * Options.MaxRetryDelay));

        Assert.Equal(10, _buffer.GetStatistics().FailedMessages);
    }

    [Fact]
    public void It_is_given_up_in_time_although_another_recovers_again_and_again()
    {
        _queues.Full.Add(1);
        Write(_first, "old");
        for (var second = 0; second < 140; second++)
        {
            _ = second % 10 < 5 ? _queues.Full.Add(3) : _queues.Full.Remove(3);
            Write(_third, "line");
            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal(1, _buffer.GetStatistics().FailedMessages);
    }

    [Fact]
    public void Health_is_degraded_with_the_reason_until_it_takes_them()
    {
        _queues.Full.Add(1);
        Write(_first, "a");
        _clock.Advance(TimeSpan.FromSeconds(30));

        var busy = _buffer.GetHealth();
        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal(HealthStatus.Degraded, busy.Status);
        Assert.Contains("have taken nothing for 30 s", Assert.Single(busy.Reasons), StringComparison.Ordinal);
        Assert.Contains("The queue of node 1 is full.", busy.Reasons[0], StringComparison.Ordinal);
        Assert.Equal(HealthStatus.Healthy, _buffer.GetHealth().Status);
        Assert.Equal([1, 2], _log.Entries.Select(static entry => entry.Id));
    }

    [Fact]
    public async Task A_stop_drops_what_still_waits_and_counts_it()
    {
        var buffer = Create(new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(10) });
        _queues.Full.Add(1);
        Write(buffer, _first, "sent before");
        Write(buffer, _first, "waits");
        Write(buffer, _second, "arrives");

        await StopAsync(buffer);

        var statistics = buffer.GetStatistics();
        Assert.Equal((2, 1, 0), (statistics.StopDroppedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages));
    }

    [Fact]
    public async Task A_stop_waits_for_a_node_that_takes_its_output_in_time()
    {
        var buffer = Create(new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(10) });
        _queues.Full.Add(1);
        Write(buffer, _first, "a");
        Write(buffer, _first, "b");

        var stopping = buffer.StopAsync(CancellationToken.None);
        _queues.Full.Clear();
        _clock.Advance(TimeSpan.FromSeconds(1));

        await stopping.WithinDeadline();
        Assert.Equal(2, buffer.GetStatistics().AcknowledgedMessages);
        await buffer.DisposeAsync();
    }

    [Fact]
    public void The_oldest_that_waits_behind_it_can_be_dropped()
    {
        var dropped = new List<DroppedMessages>();
        var buffer = Create(new OutputBufferOptions
        {
            MaxBufferedBytes = 4096,
            MaxMessageBytes = 1024,
            MaxBatchBytes = 1024,
            Overflow = OverflowPolicy.DropOldest,
            MessagesDropped = dropped.Add,
        });
        _queues.Full.Add(1);
        for (var line = 0; line < 100; line++)
        {
            Write(buffer, Some.Connection(node: 1), new string('a', 500));
            Write(buffer, _second, "b");
        }

        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        var statistics = buffer.GetStatistics();
        Assert.Equal(100, _queues.Texts(2).Count);
        Assert.Equal(100, _queues.Texts(1).Count + statistics.OverflowDroppedMessages);
        Assert.InRange(statistics.OverflowDroppedMessages, 80, 99);
        Assert.Equal(0, statistics.PendingMessages);
    }

    [Fact]
    public void What_lingers_is_sent_to_the_others_at_its_time()
    {
        var buffer = Create(new OutputBufferOptions { Linger = TimeSpan.FromMilliseconds(5) });
        _queues.Full.Add(1);
        buffer.Write(_first, "a");
        _clock.Advance(TimeSpan.FromMilliseconds(5));
        buffer.Write(_second, "b");
        buffer.Write(_first, "c");
        _clock.Advance(TimeSpan.FromMilliseconds(5));
        var meanwhile = _queues.Texts(2);

        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal(["b"], meanwhile);
        Assert.Equal(["a", "c"], _queues.Texts(1));
    }

    [Fact]
    public async Task A_transport_that_does_not_know_its_destinations_lets_nothing_pass_and_loses_nothing()
    {
        await using var buffer = new OutputBuffer(new UnknownDestinations(_queues.CreateTransport()), Options, timeProvider: _clock);
        _queues.Full.Add(1);
        Write(buffer, _first, "a");
        Write(buffer, _second, "b");
        var meanwhile = _queues.Texts(2).Count;
        var reasons = buffer.GetHealth().Reasons;

        _queues.Full.Clear();
        _clock.Advance(Options.MaxRetryDelay);

        Assert.Equal((0, 1, 1), (meanwhile, _queues.Texts(1).Count, _queues.Texts(2).Count));
        Assert.Contains(reasons, static reason => reason.Contains(nameof(InvalidOperationException), StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    [InlineData(5)]
    public void Whatever_is_full_and_when_each_node_gets_everything_once_and_in_order(int seed)
    {
        var random = new Random(seed);
        var expected = new Dictionary<int, List<string>> { [1] = [], [2] = [], [3] = [] };
        for (var line = 0; line < 2000; line++)
        {
            if (random.Next(5) == 0)
                _ = random.Next(2) == 0 ? _queues.Full.Add(random.Next(1, 4)) : _queues.Full.Remove(random.Next(1, 4));
            if (random.Next(3) == 0)
                _clock.Advance(TimeSpan.FromMilliseconds(random.Next(200)));
            using (random.Next(4) == 0 ? _buffer.BeginBufferingScope() : null as IDisposable)
            {
                for (var count = random.Next(1, 5); count > 0; count--)
                    WriteSome(random, line, expected);
            }
        }

        _queues.Full.Clear();
        _clock.Advance(2 * Options.MaxRetryDelay);

        Assert.All(expected, node => Assert.Equal(node.Value, _queues.Texts(node.Key)));
        Assert.Equal(0, _buffer.GetStatistics().PendingMessages);
    }

    private void WriteSome(Random random, int line, Dictionary<int, List<string>> expected)
    {
        var text = string.Create(CultureInfo.InvariantCulture, $"{line}-{random.Next()}");
        var handle = random.Next(20) == 0 ? _group : random.Next(3) switch { 0 => _first, 1 => _second, _ => _third };
        foreach (var (node, texts) in expected)
        {
            if (!handle.IsConnection || handle.Node == node)
                texts.Add(text);
        }

        Write(handle, text);
    }

    private void Write(OutputHandle handle, string text) => Write(_buffer, handle, text);

    // Output of a scope is sent on the writer's thread, so it has been tried when this returns.
    private static void Write(OutputBuffer buffer, OutputHandle handle, string text)
    {
        using (buffer.BeginBufferingScope(handle))
            buffer.Write(handle, text);
    }

    private OutputBuffer Create(OutputBufferOptions options) => new(_queues.CreateTransport(), options, timeProvider: _clock, logger: new Logger<OutputBuffer>(_log));

    private async ValueTask StopAsync(OutputBuffer buffer)
    {
        var stopping = buffer.DisposeAsync().AsTask();
        while (!stopping.IsCompleted)
            _clock.Advance(TimeSpan.FromSeconds(1));
        await stopping;
    }

    private sealed class UnknownDestinations(FrameTransport next) : IBatchTransport
    {
        public bool SendsWithoutBlocking => true;

        public FrameDestination GetDestination(OutputHandle handle) => throw new InvalidOperationException("It does not know.");

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => next.SendAsync(batches, cancellationToken);
    }
}
