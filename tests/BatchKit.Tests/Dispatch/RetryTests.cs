using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Tests.Dispatch;

public sealed class RetryTests
{
    private static readonly OutputBufferOptions Options = new()
    {
        SendTimeout = TimeSpan.FromSeconds(2),
        DeliveryTimeout = TimeSpan.FromSeconds(30),
        RetryDelay = TimeSpan.FromSeconds(1),
        MaxRetryDelay = TimeSpan.FromSeconds(1),
    };

    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    public RetryTests() => _transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);

    [Fact]
    public async Task What_a_failed_send_left_is_sent_again_unchanged_before_anything_newer()
    {
        _transport.FailAfterPassing().Fail();
        await using var buffer = new OutputBuffer(_transport, Options, timeProvider: _clock);

        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");
        await PassRetryDelayAsync();
        await PassRetryDelayAsync();

        await _arrived.WaitForMessagesAsync(3);
        Assert.Equal(["line 0", "line 0", "line 1"], _arrived.Texts);
        Assert.Equal([1, 1, 2], _arrived.Batches.Select(batch => batch.Number));
        Assert.Single(_arrived.Batches.Select(batch => batch.Producer).Distinct());
        Assert.Equal((4, 2), (buffer.GetStatistics().Sends, buffer.GetStatistics().FailedSends));
    }

    [Fact]
    public async Task One_refused_batch_does_not_block_its_neighbours()
    {
        _transport.Answer(BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Unacknowledged);
        await using var buffer = new OutputBuffer(_transport, Options, timeProvider: _clock);
        OutputHandle[] handles = [Some.Connection(), Some.Connection(), Some.Connection()];

        using (buffer.BeginBufferingScope())
            Array.ForEach(handles, handle => buffer.Write(handle, "line"));
        await PassRetryDelayAsync();

        await _arrived.WaitForMessagesAsync(2);
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal([handles[0], handles[2]], _arrived.Batches.Select(batch => batch.Handle));
        var statistics = buffer.GetStatistics();
        Assert.Equal((2, 1, 0), (statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.PendingMessages));
    }

    [Fact]
    public async Task A_send_that_takes_too_long_is_cancelled_and_sent_again()
    {
        var stalled = _transport.Stall();
        await using var buffer = new OutputBuffer(_transport, Options, timeProvider: _clock);
        buffer.Write(_handle, "line 0");
        await stalled.EnteredAsync();

        _clock.Advance(Options.SendTimeout);
        await PassRetryDelayAsync();

        await _arrived.WaitForMessagesAsync(1);
        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public async Task The_memory_of_a_send_that_ignores_its_token_stays_valid_until_it_ends()
    {
        var hangs = new TaskCompletionSource();
        _transport.Then(async (batches, _) =>
        {
            await hangs.Task;
            await _arrived.SendAsync(batches, CancellationToken.None);
        });
        await using var buffer = new OutputBuffer(_transport, Options, timeProvider: _clock);
        buffer.Write(_handle, "line 0");

        _clock.Advance(Options.SendTimeout);
        _clock.Advance(TimeSpan.FromSeconds(1));
        await PassRetryDelayAsync();
        await _arrived.WaitForMessagesAsync(1);
        await buffer.FlushAsync().WithinDeadline();
        for (var line = 1; line < 50; line++)
            buffer.Write(_handle, "other bytes");
        hangs.SetResult();
        await _arrived.WaitForMessagesAsync(51);

        Assert.Equal(2, _arrived.Texts.Count(text => text == "line 0"));
        Assert.Equal([1, 1], _arrived.Batches.Where(batch => batch.Messages[0].Text == "line 0").Select(batch => batch.Number));
    }

    [Fact]
    public async Task Time_in_which_the_process_stands_still_gives_nothing_up_and_closes_no_scope()
    {
        _transport.Fail().Fail().Fail();
        await using var buffer = new OutputBuffer(_transport, Options, timeProvider: _clock);
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "held");
        buffer.Write(Some.Connection(), "sent");

        _clock.Freeze(TimeSpan.FromMinutes(3));

        Assert.Equal((1, 0L), (buffer.GetStatistics().OpenScopes, buffer.GetStatistics().FailedMessages));
        scope.Dispose();
        await buffer.FlushAsync(_handle).AsTask().WhileAdvancing(() => _clock.Advance(TimeSpan.FromSeconds(1)));
        Assert.Equal((2L, 0L), (buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().FailedMessages));
    }

    [Fact]
    public async Task Delivery_is_given_up_after_its_time_limit_and_what_is_newer_goes_on()
    {
        var options = new OutputBufferOptions
        {
            DeliveryTimeout = TimeSpan.FromSeconds(2),
            RetryDelay = TimeSpan.FromSeconds(1),
            MaxRetryDelay = TimeSpan.FromSeconds(1),
        };
        var isDown = true;
        for (var send = 0; send < 100; send++)
            _transport.Then((batches, cancellationToken) => isDown ? throw new IOException("It is down.") : _arrived.SendAsync(batches, cancellationToken));
        await using var buffer = new OutputBuffer(_transport, options, timeProvider: _clock);
        buffer.Write(_handle, "given up");
        var flush = buffer.FlushAsync(_handle).AsTask();

        await flush.WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(250)));
        isDown = false;
        buffer.Write(_handle, "goes on");
        await buffer.FlushAsync(_handle).AsTask().WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(250)));

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => flush);
        Assert.Equal(1, failure.LostMessages);
        Assert.Equal(["goes on"], _arrived.Texts);
        Assert.Equal((1, 1, 0), (buffer.GetStatistics().FailedMessages, buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().PendingMessages));
    }

    [Fact]
    public async Task What_waited_behind_a_slow_send_for_the_time_limit_is_not_given_up_at_its_first_failure()
    {
        var stalled = _transport.Stall();
        _transport.Fail();
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { DeliveryTimeout = TimeSpan.FromSeconds(2) }, timeProvider: _clock);
        buffer.Write(_handle, "slow");
        await stalled.EnteredAsync();
        buffer.Write(_handle, "behind it");

        for (var second = 0; second < 4; second++)
            _clock.Advance(TimeSpan.FromSeconds(1));
        stalled.Release();
        await buffer.FlushAsync(_handle).AsTask().WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(100)));

        Assert.Equal(["slow", "behind it"], _arrived.Texts);
    }

    [Fact]
    public async Task Health_says_why_while_a_route_cannot_send_and_is_well_again_after()
    {
        _transport.Fail(exception: new IOException("The broker is down."));
        await using var buffer = new OutputBuffer([new OutputRoute("broker", _transport)], options: Options, timeProvider: _clock);

        buffer.Write(_handle, "line 0");
        var whileDown = buffer.GetHealth();
        await PassRetryDelayAsync();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(HealthStatus.Unhealthy, whileDown.Status);
        Assert.Contains("broker", Assert.Single(whileDown.Reasons), StringComparison.Ordinal);
        Assert.Contains("The broker is down.", whileDown.Reasons[0], StringComparison.Ordinal);
        Assert.Equal(HealthStatus.Healthy, buffer.GetHealth().Status);
    }

    [Fact]
    public async Task Health_stays_unhealthy_between_attempts_that_outlast_a_short_limit()
    {
        for (var attempt = 0; attempt < 10; attempt++)
            _transport.Stall(ignoresCancellation: true);
        var options = new OutputBufferOptions { SendTimeout = TimeSpan.FromMilliseconds(100), RetryDelay = TimeSpan.FromMilliseconds(10), MaxRetryDelay = TimeSpan.FromMilliseconds(10) };
        var buffer = new OutputBuffer([new OutputRoute("broker", _transport)], options: options, timeProvider: _clock);
        buffer.Write(_handle, "line");

        // The watch's timer is armed all the time; the second is that of the send, or of the pause behind it.
        while (_transport.Sends < 5)
        {
            await _clock.WaitForTimersAsync(2);
            Assert.Equal(buffer.GetStatistics().FailedSends == 0 ? HealthStatus.Healthy : HealthStatus.Unhealthy, buffer.GetHealth().Status);
            _clock.Advance(TimeSpan.FromMilliseconds(10));
        }

        await buffer.DisposeAsync().AsTask().WhileAdvancing(() => _clock.Advance(TimeSpan.FromMilliseconds(100)));
    }

    [Fact]
    public async Task Health_is_degraded_while_the_next_hop_refuses_everything()
    {
        await using var buffer = new OutputBuffer([new OutputRoute("broker", _transport)], options: Options, timeProvider: _clock);
        for (var send = 0; send < 3; send++)
        {
            _transport.Answer(BatchOutcome.Refused);
            buffer.Write(_handle, "line");
            await buffer.FlushAsync(_handle).AsTask().ContinueWith(static _ => { }, TaskScheduler.Default).WithinDeadline();
        }

        var refusing = buffer.GetHealth();
        buffer.Write(_handle, "line");
        await buffer.FlushAsync(_handle).WithinDeadline();

        Assert.Equal(HealthStatus.Degraded, refusing.Status);
        Assert.Contains("3 sends were refused", Assert.Single(refusing.Reasons), StringComparison.Ordinal);
        Assert.Equal(HealthStatus.Healthy, buffer.GetHealth().Status);
    }

    [Fact]
    public async Task Health_can_be_read_at_each_moment_while_routes_fail_and_recover()
    {
        const int Failures = 2_000;
        var names = Enumerable.Range(0, 8).Select(number => $"route {number}").ToImmutableArray();
        var routes = names.Select(name => new OutputRoute(name, new ScriptedTransport(_arrived, sendsWithoutBlocking: true))).ToArray();
        foreach (var route in routes)
        {
            for (var count = 0; count < Failures; count++)
                ((ScriptedTransport)route.Transport).Fail().Pass();
        }

        await using var buffer = new OutputBuffer(routes, new EveryRoute(names), new OutputBufferOptions { DeliveryTimeout = TimeSpan.FromDays(1) }, timeProvider: _clock);
        using var ending = new CancellationTokenSource();
        var reading = Task.Run(() =>
        {
            while (!ending.IsCancellationRequested)
                buffer.GetHealth();
        });

        for (var count = 0; count < Failures && !reading.IsCompleted; count++)
        {
            buffer.Write(_handle, "line");
            var flushing = buffer.FlushAsync().AsTask();
            while (!flushing.IsCompleted)
            {
                _clock.Advance(TimeSpan.FromMilliseconds(100));
                await Task.Yield();
            }

            await flushing;
        }

        await ending.CancelAsync();
        await reading.WithinDeadline();
        Assert.Equal(HealthStatus.Healthy, buffer.GetHealth().Status);
    }

    private sealed class EveryRoute(ImmutableArray<string> names) : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => names;
    }

    // The watch's timer is armed all the time; a retry's is the second.
    [Fact]
    public async Task Health_forgets_a_failure_when_nothing_is_left_to_send()
    {
        for (var attempt = 0; attempt < 200; attempt++)
            _transport.Fail(exception: new IOException("The broker is down."));
        // The clock goes on for a while after the flush has ended.
        var options = new OutputBufferOptions { SendTimeout = TimeSpan.FromHours(1), DeliveryTimeout = Options.DeliveryTimeout, RetryDelay = Options.RetryDelay, MaxRetryDelay = Options.MaxRetryDelay };
        var buffer = new OutputBuffer([new OutputRoute("broker", _transport)], options: options, timeProvider: _clock);

        buffer.Write(_handle, "lost");
        await GiveUpAsync(buffer);
        Assert.Equal(HealthStatus.Unhealthy, buffer.GetHealth().Status);
        _clock.Advance(2 * (options.SendTimeout + options.MaxRetryDelay + TimeSpan.FromMilliseconds(500)));
        Assert.Equal(HealthStatus.Healthy, buffer.GetHealth().Status);

        buffer.Write(_handle, "another outage");
        var reason = Assert.Single(buffer.GetHealth().Reasons);
        await GiveUpAsync(buffer);
        Assert.Contains("for 0 s (1 attempts)", reason, StringComparison.Ordinal);

        // The sender pauses after an attempt that gave up, too.
        await buffer.DisposeAsync().AsTask().WhileAdvancing(() => _clock.Advance(Options.RetryDelay));
    }

    private async Task GiveUpAsync(OutputBuffer buffer)
    {
        var flushing = buffer.FlushAsync(_handle).AsTask();
        await flushing.WhileAdvancing(() => _clock.Advance(Options.RetryDelay));
        await Assert.ThrowsAsync<OutputDeliveryException>(() => flushing);
    }

    private async Task PassRetryDelayAsync()
    {
        await _clock.WaitForTimersAsync(2);
        _clock.Advance(Options.RetryDelay);
    }
}
