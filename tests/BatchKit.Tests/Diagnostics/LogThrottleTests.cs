using System.Collections.Immutable;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Diagnostics;

public sealed class LogThrottleTests
{
    private const int Failure = 1;
    private const int Refusal = 3;
    private static readonly TimeSpan Period = TimeSpan.FromMinutes(1);

    private readonly ManualTimeProvider _clock = new();
    private readonly LogCollector _log = new();

    [Fact]
    public void The_first_event_is_logged_at_once_and_the_others_together_once_a_period()
    {
        var throttle = new LogThrottle(_clock, Period);

        var isFirstLogged = throttle.TryBegin(Failure, "route", amount: 2, out var first);
        var areOthersLogged = Enumerable.Range(0, 100).Any(number => throttle.TryBegin(Failure, "route", amount: 3, out _));
        _clock.Advance(Period / 2);
        areOthersLogged |= throttle.TryBegin(Failure, "route", amount: 5, out _);
        _clock.Advance(Period / 2);
        var isNextLogged = throttle.TryBegin(Failure, "route", amount: 7, out var next);

        Assert.Equal((true, false, true), (isFirstLogged, areOthersLogged, isNextLogged));
        Assert.Equal((new ThrottledEvents(1, 2, IsFirst: true), new ThrottledEvents(102, 312, IsFirst: false)), (first, next));
    }

    [Fact]
    public void Each_event_and_each_subject_has_a_period_of_its_own()
    {
        var throttle = new LogThrottle(_clock, Period);

        Assert.True(throttle.TryBegin(Failure, "one", amount: 1, out _));
        Assert.True(throttle.TryBegin(Failure, "other", amount: 1, out _));
        Assert.True(throttle.TryBegin(Refusal, "one", amount: 1, out _));
        Assert.False(throttle.TryBegin(Failure, "one", amount: 1, out _));
    }

    [Fact]
    public void After_a_quiet_period_an_event_is_the_first_again()
    {
        var throttle = new LogThrottle(_clock, Period);
        throttle.TryBegin(Failure, "route", amount: 1, out _);

        _clock.Advance(Period);
        throttle.TryBegin(Failure, "route", amount: 1, out var next);

        Assert.Equal(new ThrottledEvents(1, 1, IsFirst: true), next);
    }

    [Fact]
    public void What_is_held_back_is_logged_without_another_event_when_the_period_is_over()
    {
        var throttle = new LogThrottle(_clock, Period);
        var lines = new List<string>();
        Log(Failure, "begin 1");
        Log(Refusal, "end 1");
        _clock.Advance(Period / 2);
        Log(Failure, "begin 2");
        Log(Refusal, "end 2");
        _clock.Advance(TimeSpan.FromSeconds(1));
        Log(Failure, "begin 3");

        throttle.Flush();
        var before = lines.Count;
        _clock.Advance(Period / 2);
        throttle.Flush();
        throttle.Flush();

        Assert.Equal(2, before);
        Assert.Equal(["begin 1: 1", "end 1: 1", "end 2: 1", "begin 3: 2"], lines);

        void Log(int id, string text) => throttle.Log(id, "route", amount: 1, events => lines.Add($"{text}: {events.Count}"));
    }

    [Fact]
    public async Task The_begin_and_the_end_of_an_outage_soon_after_another_are_logged_within_a_minute()
    {
        var transport = new ScriptedTransport(new CollectingTransport(), sendsWithoutBlocking: true);
        await using var buffer = Buffer(transport);

        for (var outage = 0; outage < 3; outage++)
        {
            transport.Fail();
            buffer.Write(Some.Connection(), "late");
            _clock.Advance(TimeSpan.FromSeconds(5));
            await buffer.FlushAsync().WithinDeadline();
        }

        Assert.Equal((1, 1), (_log.Count(1), _log.Count(2)));
        _clock.Advance(Period);
        await _log.WaitForAsync(1, count: 2);
        await _log.WaitForAsync(2, count: 2);
        Assert.Equal([1, 2, 1, 2], _log.Entries.Select(static entry => entry.Id));
        Assert.Contains("Recoveries since the last such line: 2.", _log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_hundred_thousand_refusals_make_at_most_ten_lines_and_one_stack_trace()
    {
        var refusals = HostileClients.Of(100_000);
        await using var buffer = Buffer(new RefusingTransport(destinationsAreGone: false));

        for (var refusal = 0; refusal < refusals; refusal++)
        {
            buffer.Write(Some.Connection(), "refused");
            if (refusal % (refusals / 8) != 0)
                continue;
            // What was written so far is refused at this time, and not after a whole period, when the sender on the pool is late.
            await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
            _clock.Advance(Period / 2);
        }

        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());
        Assert.Equal(refusals, buffer.GetStatistics().FailedMessages);
        Assert.InRange(_log.Entries.Count(), 1, 10);
        Assert.Single(_log.Entries, entry => entry.Text.Contains("   at ", StringComparison.Ordinal));
        Assert.Matches(@"refused \d+ batches of \d+ sends", _log.Entries.Last().Text);
    }

    [Fact]
    public async Task Refusals_for_connections_that_left_are_counted_and_not_logged()
    {
        await using var buffer = Buffer(new RefusingTransport(destinationsAreGone: true));

        buffer.Write(Some.Connection(), "refused");
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());

        Assert.Equal(1, buffer.GetStatistics().FailedMessages);
        Assert.Empty(_log.Entries);
    }

    private OutputBuffer Buffer(IBatchTransport transport) => new(transport, timeProvider: _clock, logger: new Logger<OutputBuffer>(_log));

    private sealed class RefusingTransport(bool destinationsAreGone) : IBatchTransport
    {
        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            var outcomes = ImmutableArray.CreateRange(Enumerable.Repeat(BatchOutcome.Refused, batches.Length));
            throw new BatchSendException(outcomes, "Refused.") { DestinationsAreGone = destinationsAreGone };
        }
    }
}
