using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>A route whose broker is away, and a handle whose output does not leave, take nothing that others need. Walks are counted, because time depends on the machine.</summary>
public sealed class BadNeighbourTests
{
    private const int Capacity = 1024 * 1024;

    private static readonly byte[] Line = Some.RandomBytes(100);
    private static readonly byte[] Kilobyte = Some.RandomBytes(1000);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _greedy = Some.Connection();

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task While_a_broker_is_away_for_ten_minutes_no_local_message_is_refused_dropped_or_delayed(OverflowPolicy policy)
    {
        const int lines = 100;
        await using var buffer = WithBrokerAway(policy);
        var local = OutputHandle.Connection(node: 1, sequence: 1);
        var group = Some.Group();
        var waits = new List<Task>();
        var (written, mostPending) = (0, 0L);

        for (var second = 0; second < 600; second++)
        {
            for (var remote = 0; remote < 20; remote++)
                buffer.TryWrite(OutputHandle.Connection(node: 2, sequence: (second * 20) + remote + 1), Kilobyte);
            buffer.TryWrite(group, Kilobyte);
            if (second % 10 == 0 && policy == OverflowPolicy.Wait)
                waits.Add(buffer.WriteAsync(OutputHandle.Connection(node: 2, sequence: second + 1), Kilobyte).AsTask());
            await using (buffer.BeginBufferingScope(local))
            {
                for (var line = 0; line < lines; line++, written++)
                    Assert.True(buffer.TryWrite(local, Line), $"Line {line} of second {second} was refused.");
            }

            // The most of all seconds: what has waited for DeliveryTimeout fails at once, so that a single second may find the route nearly empty.
            mostPending = Math.Max(mostPending, buffer.GetPendingBytes(LocalFirstRouter.RemoteRoute));
            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal(written, _arrived.MessagesFor(local).Count);
        Assert.All(_arrived.Batches.Where(batch => batch.Handle == local), batch => Assert.Equal(lines, batch.Messages.Count));
        Assert.Equal(0, buffer.GetPendingBytes(local));
        Assert.InRange(mostPending, Capacity / 2, Capacity);
        Assert.Equal(0, waits.Count(wait => wait.IsFaulted));
        await EndAsync(buffer);
    }

    [Fact]
    public async Task A_local_hop_that_stands_takes_nothing_from_the_broker()
    {
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, new ScriptedTransport(_arrived).Then(StandAsync)), new(LocalFirstRouter.RemoteRoute, _arrived)];
        await using var buffer = new OutputBuffer(routes, new LocalFirstRouter(node: 1), Options(OverflowPolicy.Fail), timeProvider: _clock);
        for (var handle = 1; buffer.TryWrite(OutputHandle.Connection(node: 1, handle), Kilobyte); handle++)
            continue;
        for (var handle = 1; buffer.TryWrite(OutputHandle.Named($"group {handle}"), Kilobyte); handle++)
            continue;

        for (var line = 1; line <= 100; line++)
            buffer.Write(OutputHandle.Connection(node: 2, sequence: line), Kilobyte);

        Assert.Equal(100, _arrived.Messages.Count(message => message.Handle.IsConnection));
        await EndAsync(buffer);
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task A_greedy_handle_leaves_the_others_what_they_need_and_loses_only_its_own(OverflowPolicy policy)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(policy), timeProvider: _clock);
        buffer.Write(Some.Connection(), Line);
        await stalled.EnteredAsync();
        OutputHandle[] others = [.. Enumerable.Range(0, 100).Select(static _ => Some.Connection())];
        foreach (var other in others[..50])
            buffer.Write(other, Line);

        for (var message = 0; message < 2 * Capacity / 1000; message++)
            buffer.TryWrite(_greedy, Kilobyte);
        var waiting = policy == OverflowPolicy.Wait ? buffer.WriteAsync(_greedy, Kilobyte).AsTask() : Task.CompletedTask;
        foreach (var other in others)
            await buffer.WriteAsync(other, Line).WithinDeadline();

        Assert.InRange(buffer.GetPendingBytes(_greedy), Capacity / 2, Capacity * 3 / 4);
        Assert.Equal(policy == OverflowPolicy.Wait, !waiting.IsCompleted);
        stalled.Release();
        await waiting.WithinDeadline();
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        Assert.Equal([.. Enumerable.Repeat(2, 50), .. Enumerable.Repeat(1, 50)], others.Select(other => _arrived.MessagesFor(other).Count));
        Assert.InRange(_arrived.MessagesFor(_greedy).Count, Capacity / 2 / 1004, (Capacity * 3 / 4 / 1004) + 1);
        Assert.Equal((0, 0), (buffer.GetStatistics().BufferedBytes, buffer.GetPendingBytes(_greedy)));
    }

    [Theory]
    [InlineData(2, OverflowPolicy.Wait)]
    [InlineData(2, OverflowPolicy.DropOldest)]
    [InlineData(10, OverflowPolicy.Fail)]
    [InlineData(10, OverflowPolicy.DropNewest)]
    [InlineData(100, OverflowPolicy.Wait)]
    [InlineData(100, OverflowPolicy.DropOldest)]
    public async Task Greedy_handles_leave_others_what_they_need_however_many_they_are(int count, OverflowPolicy policy)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(policy), timeProvider: _clock);
        buffer.Write(Some.Connection(), Line);
        await stalled.EnteredAsync();
        OutputHandle[] greedy = [.. Enumerable.Range(0, count).Select(static _ => Some.Connection())];
        OutputHandle[] others = [.. Enumerable.Range(0, 30).Select(static _ => Some.Connection())];

        for (var message = 0; message < 2 * Capacity / 1000; message++)
        {
            foreach (var handle in greedy)
                buffer.TryWrite(handle, Kilobyte);
        }

        Task[] waiting = policy == OverflowPolicy.Wait ? [.. greedy.Select(handle => buffer.WriteAsync(handle, Kilobyte).AsTask())] : [];
        foreach (var other in others)
            Assert.True(buffer.TryWrite(other, Line));

        Assert.InRange(greedy.Sum(buffer.GetPendingBytes), Capacity / 2, (Capacity * 3L * count / ((3 * count) + 1)) + 1004);
        Assert.All(greedy, handle => Assert.InRange(buffer.GetPendingBytes(handle), 1004, Capacity * 3L / 4));
        Assert.All(waiting, static wait => Assert.False(wait.IsCompleted));
        stalled.Release();
        await Task.WhenAll(waiting).WithinDeadline();
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        Assert.All(others, other => Assert.Single(_arrived.MessagesFor(other)));
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    [Fact]
    public async Task With_drop_oldest_a_handle_whose_own_output_is_under_way_takes_the_place_of_older_output()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.DropOldest), timeProvider: _clock);
        var sending = Some.Connection();
        buffer.Write(sending, new byte[50_000]);
        await stalled.EnteredAsync();
        for (var handle = 0; handle < Capacity / 1004; handle++)
            buffer.Write(Some.Connection(), Kilobyte);

        Assert.True(buffer.TryWrite(sending, Kilobyte));

        Assert.InRange(buffer.GetStatistics().OverflowDroppedMessages, 1, 200);
        stalled.Release();
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        Assert.Equal(2, _arrived.MessagesFor(sending).Count);
    }

    [Fact]
    public async Task A_writer_that_waits_for_its_handles_share_ends_no_scope_of_another_handle()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.Wait), timeProvider: _clock);
        while (buffer.TryWrite(_greedy, Kilobyte))
            continue;
        await stalled.EnteredAsync();
        var waiting = buffer.WriteAsync(_greedy, Kilobyte).AsTask();
        var neighbour = Some.Connection();
        var scope = buffer.BeginBufferingScope(neighbour);
        buffer.Write(neighbour, Line);

        stalled.Release();
        await waiting.WithinDeadline();
        await buffer.FlushAsync(_greedy).WithinDeadline();

        Assert.Empty(_arrived.MessagesFor(neighbour));
        await scope.DisposeAsync().WithinDeadline();
        Assert.Single(_arrived.MessagesFor(neighbour));
    }

    [Fact]
    public async Task A_full_share_is_named_in_the_error()
    {
        await using var buffer = new OutputBuffer(new ScriptedTransport(_arrived).Then(StandAsync), Options(OverflowPolicy.Fail), timeProvider: _clock);

        var full = Assert.Throws<OutputOverflowException>(() =>
        {
            for (var message = 0; message < 2 * Capacity / 1000; message++)
                buffer.Write(_greedy, Kilobyte);
        });

        Assert.Equal((nameof(OutputBufferOptions.MaxBufferedBytesPerHandle), Capacity / 4 * 3, false), (full.LimitName, (int)full.LimitBytes, full.IsPermanent));
        await EndAsync(buffer);
    }

    [Fact]
    public async Task A_sealed_batch_keeps_only_what_its_messages_take()
    {
        var options = Options(OverflowPolicy.Fail);
        options.MaxBufferedBytesPerHandle = Capacity;
        await using var buffer = new OutputBuffer(new ScriptedTransport(_arrived).Then(StandAsync), options, timeProvider: _clock);
        var accepted = 0;

        for (var isFull = false; !isFull;)
        {
            var handle = Some.Connection();
            using (buffer.BeginBufferingScope(handle))
            {
                for (var message = 0; message < 33 && !isFull; message++)
                    accepted += (isFull = !buffer.TryWrite(handle, Kilobyte)) ? 0 : 1;
            }
        }

        Assert.InRange(accepted, (Capacity / 1004) - 1, Capacity / 1004);
        await EndAsync(buffer);
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task A_write_to_a_full_buffer_looks_at_no_handle_but_its_own(OverflowPolicy policy)
    {
        await using var buffer = new OutputBuffer(new ScriptedTransport(_arrived).Then(StandAsync), Options(policy), timeProvider: _clock);
        var scopes = new List<BufferingScope>();
        for (var handle = Some.Connection(); buffer.GetStatistics().BufferedBytes + 1004 <= Capacity; handle = Some.Connection())
        {
            scopes.Add(buffer.BeginBufferingScope(handle));
            buffer.Write(handle, Kilobyte);
        }

        var before = buffer.HandleLooks;
        for (var write = 0; write < 1000; write++)
            buffer.TryWrite(Some.Connection(), Kilobyte);

        Assert.Equal(before, buffer.HandleLooks);
        scopes.ForEach(static scope => scope.Dispose());
        await EndAsync(buffer);
    }

    [Fact]
    public async Task New_handles_look_at_a_few_others_each_although_none_may_be_idle()
    {
        const int handles = 20_000;
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxIdleHandles = 0, MaxScopeAge = TimeSpan.FromDays(1) }, timeProvider: _clock);
        var scopes = new List<BufferingScope>();

        for (var handle = 0; handle < handles; handle++)
            scopes.Add(buffer.BeginBufferingScope(Some.Connection()));

        Assert.InRange(buffer.HandleLooks, 0, handles * 12L);
        scopes.ForEach(static scope => scope.Dispose());
    }

    [Fact]
    public async Task A_scrape_of_all_instruments_reads_the_handles_once()
    {
        var name = Some.Name("scraped");
        await using var buffer = new OutputBuffer(_arrived, name: name, timeProvider: _clock);
        for (var handle = 0; handle < 100; handle++)
            buffer.Write(Some.Connection(), Line);
        var measured = 0;
        using var listener = new MeterListener
        {
            InstrumentPublished = (instrument, itself) =>
            {
                if (instrument.Meter.Name == BatchKitMetrics.MeterName && instrument.Meter.Tags?.Any(tag => Equals(tag.Value, name)) == true)
                    itself.EnableMeasurementEvents(instrument);
            },
        };
        listener.SetMeasurementEventCallback<long>((_, _, _, _) => measured++);
        listener.Start();
        var before = buffer.HandleLooks;

        for (var scrape = 0; scrape < 3; scrape++)
            listener.RecordObservableInstruments();

        Assert.InRange(measured, 3 * 11, int.MaxValue);
        Assert.Equal(3 * 100, buffer.HandleLooks - before);
    }

    private static async ValueTask StandAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
        await Task.Delay(Timeout.InfiniteTimeSpan, TimeProvider.System, cancellationToken);

    private static OutputBufferOptions Options(OverflowPolicy policy) => new() { MaxBufferedBytes = Capacity, MaxMessageBytes = 64 * 1024, Overflow = policy, DrainTimeout = TimeSpan.Zero, SendTimeout = TimeSpan.FromHours(1) };

    // A manual clock stands still while the end waits for a send that ignores nothing.
    private static Task EndAsync(OutputBuffer buffer) => buffer.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();

    private OutputBuffer WithBrokerAway(OverflowPolicy policy)
    {
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, _arrived), new(LocalFirstRouter.RemoteRoute, new AwayTransport(_arrived))];
        return new OutputBuffer(routes, new LocalFirstRouter(node: 1), Options(policy), timeProvider: _clock);
    }
}
