using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Dispatch;

/// <summary>Members of an exception are foreign code: what they throw changes no outcome, settles nothing twice, and moves no message to another handle.</summary>
public sealed class UnreadableFailureTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly LogCollector _log = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    /// <summary>Where the exception is.</summary>
    public enum Place
    {
        Thrown,
        InsideRefusal,
        InsideAggregate,
        InsideRefusalOfMessage,
    }

    [Theory]
    [InlineData(Place.Thrown, 0, true)]
    [InlineData(Place.Thrown, 1, false)]
    [InlineData(Place.Thrown, 2, true)]
    [InlineData(Place.InsideRefusal, 0, true)]
    [InlineData(Place.InsideRefusal, 3, false)]
    [InlineData(Place.InsideAggregate, 0, true)]
    [InlineData(Place.InsideRefusalOfMessage, 0, true)]
    [InlineData(Place.InsideRefusalOfMessage, 2, false)]
    public async Task A_failure_that_cannot_be_read_is_reported_counted_and_logged_once(Place place, int reads, bool inline)
    {
        var transport = new ScriptedTransport(_arrived, inline).Then((_, _) =>
        {
            // By now it is too old to be sent again.
            _clock.Advance(TimeSpan.FromSeconds(1));
            throw Failure(place, reads);
        });
        await using var buffer = Buffer(transport);
        var neighbour = Some.Connection();

        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.Write(_handle, "lost");
            buffer.Write(_handle, "lost too");
        }

        var loss = await Assert.ThrowsAsync<OutputDeliveryException>(() => PassTimeUntilAsync(buffer.FlushAsync(_handle).AsTask()));
        buffer.Write(neighbour, "for the neighbour");
        await PassTimeUntilAsync(buffer.FlushAsync(neighbour).AsTask());

        var statistics = buffer.GetStatistics();
        var lost = place == Place.InsideRefusalOfMessage ? 1 : 2;
        Assert.Equal((3, 3 - lost, lost, 0, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.FailedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(lost, loss.LostMessages);
        Assert.Equal("for the neighbour", Assert.Single(_arrived.Texts));
        Assert.NotEmpty(_log.Entries);
    }

    [Fact]
    public async Task Health_names_a_route_whose_failure_cannot_be_read()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail(exception: new HostileException());
        await using var buffer = Buffer(transport);

        buffer.Write(_handle, "line");

        var health = buffer.GetHealth();
        Assert.Equal(HealthStatus.Unhealthy, health.Status);
        Assert.Contains(nameof(HostileException), Assert.Single(health.Reasons), StringComparison.Ordinal);
        await PassTimeUntilAsync(buffer.FlushAsync().AsTask());
    }

    [Fact]
    public async Task Health_tells_of_an_observer_whose_exception_cannot_be_read()
    {
        var logger = new Logger<OutputBuffer>(new ThrowingLoggers { Fault = new HostileException() });
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock, logger: logger);

        buffer.Write(_handle, "line");
        await PassTimeUntilAsync(buffer.FlushAsync().AsTask());

        Assert.Contains(nameof(HostileException), Assert.Single(buffer.GetHealth().Reasons), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_loss_that_many_wait_for_reaches_each_of_them()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Buffer(transport);
        buffer.Write(_handle, "lost");
        await stalled.EnteredAsync();
        var waits = Enumerable.Range(0, 100).Select(_ => buffer.FlushAsync(_handle).AsTask()).ToArray();

        _clock.Advance(TimeSpan.FromSeconds(1));
        stalled.Fail(new HostileException());

        foreach (var wait in waits)
            await Assert.ThrowsAsync<OutputDeliveryException>(() => wait.WithinDeadline());
        Assert.Equal(1, buffer.GetStatistics().FailedMessages);

        // The pause after the failure is in the manual clock's time.
        await PassTimeUntilAsync(buffer.StopAsync(CancellationToken.None));
    }

    private static Exception Failure(Place place, int reads) => place switch
    {
        Place.InsideRefusal => new BatchSendException([BatchOutcome.Refused], "Refused.", new HostileException(reads)),
        Place.InsideRefusalOfMessage => new BatchSendException([BatchOutcome.Acknowledged], "Refused.", new HostileException(reads), [new MessageRefusal(0, 1)]),
        Place.InsideAggregate => new AggregateException(new HostileException(reads)),
        _ => new HostileException(reads),
    };

    private OutputBuffer Buffer(IBatchTransport transport) => new(
        transport, new OutputBufferOptions { DeliveryTimeout = TimeSpan.FromMilliseconds(10) }, timeProvider: _clock, logger: new Logger<OutputBuffer>(_log));

    private async Task PassTimeUntilAsync(Task task)
    {
        for (var ending = task.WithinDeadline(); !ending.IsCompleted;)
        {
            _clock.Advance(TimeSpan.FromMilliseconds(50));
            await Task.WhenAny(ending, Task.Delay(1));
        }

        await task;
    }
}
