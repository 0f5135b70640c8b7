using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Dispatch;

/// <summary>A transport that blocks the thread of its send keeps its promise to nobody: the stop ends without it.</summary>
public sealed class BlockedTransportTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _arrived = new();

    /// <summary>What blocks its thread.</summary>
    public enum Blocks
    {
        FirstSend,
        SendOfTheStop,
        HandlerOfCancellation,
    }

    [Theory]
    [InlineData(Blocks.FirstSend, true)]
    [InlineData(Blocks.FirstSend, false)]
    [InlineData(Blocks.SendOfTheStop, true)]
    [InlineData(Blocks.SendOfTheStop, false)]
    [InlineData(Blocks.HandlerOfCancellation, false)]
    public async Task A_stop_keeps_its_limit_and_the_other_routes_drain(Blocks blocks, bool inline)
    {
        using var released = new ManualResetEventSlim();
        var transport = new BlockingTransport(released, blocks == Blocks.HandlerOfCancellation, inline);
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, _arrived), new(LocalFirstRouter.RemoteRoute, transport)];
        var buffer = new OutputBuffer(routes, new LocalFirstRouter(node: 1), new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(1) }, timeProvider: _clock);
        var (local, remote) = (OutputHandle.Connection(node: 1, sequence: 1), OutputHandle.Connection(node: 2, sequence: 1));
        var scope = blocks == Blocks.SendOfTheStop ? buffer.BeginBufferingScope(remote) : default;
        using var localScope = buffer.BeginBufferingScope(local);
        buffer.Write(local, "drained");

        // A writer's thread is blocked by an inline send: that is the transport's breach, and it reaches that writer only.
        var writer = OnOwnThread(() => buffer.Write(remote, "blocked"));
        if (blocks != Blocks.SendOfTheStop)
            await transport.Entered.Task.WithinDeadline();
        else
            await writer.WithinDeadline();

        var stop = OnOwnThread(() => buffer.StopAsync(CancellationToken.None)).Unwrap();
        await _arrived.WaitForMessagesAsync(1);
        while (!stop.IsCompleted)
        {
            _clock.Advance(TimeSpan.FromSeconds(1));
            await Task.WhenAny(stop.WithinDeadline(), Task.Delay(1));
        }

        await stop;
        Assert.Equal(["drained"], _arrived.Texts);
        Assert.Throws<ObjectDisposedException>(() => buffer.Write(local, "too late"));
        released.Set();
        await writer.WithinDeadline();
        scope.Dispose();
        await Until.TrueAsync(() => buffer.GetStatistics().PendingMessages == 0);
        var statistics = buffer.GetStatistics();
        Assert.Equal(2, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages);
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Health_and_the_log_tell_of_a_send_that_does_not_return(bool inline)
    {
        using var released = new ManualResetEventSlim();
        var log = new LogCollector();
        var transport = new BlockingTransport(released, blocksCancellation: false, inline);
        var options = new OutputBufferOptions { SendTimeout = TimeSpan.FromSeconds(10) };
        await using var buffer = new OutputBuffer([new OutputRoute("broker", transport)], options: options, timeProvider: _clock, logger: new Logger<OutputBuffer>(log));
        var writer = OnOwnThread(() => buffer.Write(Some.Connection(), "blocked"));
        await transport.Entered.Task.WithinDeadline();
        _clock.Advance(options.SendTimeout);
        var withinGrace = buffer.GetHealth();
        _clock.Advance(TimeSpan.FromMinutes(5));

        var blocked = buffer.GetHealth();
        released.Set();
        await writer.WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(HealthStatus.Healthy, withinGrace.Status);
        Assert.Equal(HealthStatus.Unhealthy, blocked.Status);
        var reason = Assert.Single(blocked.Reasons);
        Assert.StartsWith("Route 'broker' has not been able to send for 310 s", reason, StringComparison.Ordinal);
        Assert.EndsWith("the transport blocks its thread.", reason, StringComparison.Ordinal);
        Assert.Equal([(16, LogLevel.Warning)], log.Entries.Select(static entry => (entry.Id, entry.Level)));
        await Until.TrueAsync(() => buffer.GetHealth().Status == HealthStatus.Healthy);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_send_that_ends_after_its_buffer_is_disposed_of_harms_no_one(bool isAfterAnother)
    {
        using var released = new ManualResetEventSlim();
        using var passed = new SemaphoreSlim(0);
        var transport = new BlockingTransport(released, blocksCancellation: false, inline: true, isAfterAnother ? passed : null);
        var buffer = new OutputBuffer(transport, new OutputBufferOptions { DrainTimeout = TimeSpan.FromSeconds(1) }, timeProvider: _clock);
        var handle = Some.Connection();
        if (isAfterAnother)
        {
            buffer.Write(OutputHandle.Named("another"), "before");
            buffer.Write(OutputHandle.Named("another"), "behind it");
            passed.Release();
        }

        var writer = OnOwnThread(() => buffer.Write(handle, "blocked"));
        await transport.Entered.Task.WithinDeadline();
        buffer.Write(handle, "behind it");

        var disposal = buffer.DisposeAsync().AsTask();
        while (!disposal.IsCompleted)
        {
            _clock.Advance(TimeSpan.FromSeconds(1));
            await Task.WhenAny(disposal, Task.Delay(1));
        }

        await disposal;
        released.Set();
        await writer.WithinDeadline();
        await Until.TrueAsync(() => buffer.GetStatistics().PendingMessages == 0);
        var statistics = buffer.GetStatistics();
        Assert.Equal(isAfterAnother ? 4 : 2, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages);
    }

    [Fact]
    public async Task A_transport_that_blocks_its_writer_keeps_no_other_route_from_starting()
    {
        using var released = new ManualResetEventSlim();
        var transport = new BlockingTransport(released, blocksCancellation: false, inline: true);
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, transport), new(LocalFirstRouter.RemoteRoute, _arrived)];
        var buffer = new OutputBuffer(routes, new LocalFirstRouter(node: 1));
        var room = OutputHandle.Named("room");

        var writer = OnOwnThread(() => buffer.Write(room, "to both"));
        await transport.Entered.Task.WithinDeadline();
        await _arrived.WaitForMessagesAsync(1).WithinDeadline();
        buffer.Write(OutputHandle.Connection(node: 2, sequence: 1), "to the other");
        await _arrived.WaitForMessagesAsync(2).WithinDeadline();

        Assert.Equal(["to both", "to the other"], _arrived.Texts);
        released.Set();
        await writer.WithinDeadline();
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_transport_that_blocks_the_end_of_a_scopes_time_holds_up_no_other_scope()
    {
        using var released = new ManualResetEventSlim();
        var transport = new BlockingTransport(released, blocksCancellation: false, inline: true);
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, transport), new(LocalFirstRouter.RemoteRoute, _arrived)];
        var buffer = new OutputBuffer(routes, new LocalFirstRouter(node: 1));
        var (local, remote) = (OutputHandle.Connection(node: 1, sequence: 1), OutputHandle.Connection(node: 2, sequence: 1));
        var scopes = new[] { buffer.BeginBufferingScope(local, TimeSpan.FromMilliseconds(10)), buffer.BeginBufferingScope(remote, TimeSpan.FromMilliseconds(30)) };
        buffer.Write(local, "blocked");
        buffer.Write(remote, "in time");
        await transport.Entered.Task.WithinDeadline();
        var later = OutputHandle.Connection(node: 2, sequence: 2);
        using var latest = buffer.BeginBufferingScope(later, TimeSpan.FromMinutes(10));
        buffer.Write(later, "with much time");

        await _arrived.WaitForMessagesAsync(1).WithinDeadline();

        released.Set();
        foreach (var scope in scopes)
            scope.Dispose();
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_handler_of_cancellation_that_hangs_keeps_the_buffer_from_no_end()
    {
        using var released = new ManualResetEventSlim();
        var transport = new BlockingTransport(released, blocksCancellation: true, inline: false);
        var buffer = new OutputBuffer(transport, new OutputBufferOptions { SendTimeout = TimeSpan.FromMilliseconds(50), DrainTimeout = TimeSpan.FromMilliseconds(50) });
        buffer.Write(OutputHandle.Named("room"), "hello");
        await transport.Entered.Task.WithinDeadline();
        await Until.TrueAsync(() => transport.IsCancelling);

        await buffer.DisposeAsync().WithinDeadline();

        released.Set();
    }

    private static Task<bool> OnOwnThread(Action action) => OnOwnThread(() =>
    {
        action();
        return true;
    });

    private static Task<T> OnOwnThread<T>(Func<T> function) =>
        Task.Factory.StartNew(function, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

    private sealed class BlockingTransport(ManualResetEventSlim released, bool blocksCancellation, bool inline, SemaphoreSlim? first = null) : IBatchTransport
    {
        private SemaphoreSlim? _first = first;

        public TaskCompletionSource Entered { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public bool SendsWithoutBlocking => inline;

        public bool IsCancelling { get; private set; }

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            if (Interlocked.Exchange(ref _first, null) is { } pass)
            {
                await pass.WaitAsync(Deadline.Time, CancellationToken.None);
                return;
            }

            if (!blocksCancellation)
            {
                Entered.TrySetResult();
                released.Wait(Deadline.Time, CancellationToken.None);
                return;
            }

            await using var registration = cancellationToken.Register(() =>
            {
                IsCancelling = true;
                released.Wait(Deadline.Time, CancellationToken.None);
            });
            Entered.TrySetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, TimeProvider.System, cancellationToken);
        }
    }
}
