using System.Collections.Immutable;
using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Diagnostics;

/// <summary>Loggers and listeners only watch: what they throw stops nothing, and health tells of it.</summary>
public sealed class ObserverTests
{
    private readonly string _name = Some.Name("observed");
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();

    /// <summary>Who throws.</summary>
    public enum Observer
    {
        Logger,
        MeterListener,
        ActivitySampler,
        ActivityStarted,
        ActivityStopped,
    }

    [Theory]
    [InlineData(Observer.Logger, true)]
    [InlineData(Observer.MeterListener, true)]
    [InlineData(Observer.ActivitySampler, true)]
    [InlineData(Observer.ActivityStarted, true)]
    [InlineData(Observer.ActivityStopped, true)]
    [InlineData(Observer.Logger, false)]
    [InlineData(Observer.MeterListener, false)]
    [InlineData(Observer.ActivityStopped, false)]
    public async Task An_observer_that_throws_stops_no_send_no_write_and_no_stop(Observer observer, bool inline)
    {
        using var listener = Throwing(observer);
        var transport = new ScriptedTransport(_arrived, inline).Pass(sends: 1).Fail();
        var buffer = Buffer(transport, observer);
        var handle = Some.Connection();

        buffer.Write(handle, "line 0");
        await _arrived.WaitForMessagesAsync(1);
        buffer.Write(handle, "line 1");
        buffer.Write(handle, "line 2");
        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(3));
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(Some.Lines(3), _arrived.Texts);
        var statistics = buffer.GetStatistics();
        Assert.Equal((3, 3, 0, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(HealthStatus.Degraded, buffer.GetHealth().Status);
        Assert.Contains(buffer.GetHealth().Reasons, reason => reason.Contains(nameof(NotSupportedException), StringComparison.Ordinal));
        await buffer.StopAsync(CancellationToken.None).WithinDeadline();
        await buffer.DisposeAsync().WithinDeadline();
    }

    [Theory]
    [InlineData(Observer.Logger)]
    [InlineData(Observer.MeterListener)]
    [InlineData(Observer.ActivityStopped)]
    public async Task The_end_of_an_ambient_scope_loses_nothing_on_any_route_when_an_observer_throws(Observer observer)
    {
        using var listener = Throwing(observer);
        OutputRoute[] routes = [new("even", new ScriptedTransport(_arrived, true).Fail(), partitions: 4), new("odd", new ScriptedTransport(_arrived, true).Fail(), partitions: 4)];
        await using var buffer = new OutputBuffer(routes, new EvenAndOdd(), name: _name, timeProvider: _clock, logger: ThrowingLogger(observer));

        using (buffer.BeginBufferingScope())
        {
            for (var number = 1; number <= 128; number++)
                buffer.Write(OutputHandle.Connection(node: 1, number), "line");
        }

        await PassTimeUntilAsync(_arrived.WaitForMessagesAsync(128));
        Assert.Equal(128, _arrived.MessageCount);
        Assert.Equal(128, buffer.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_logger_may_write_to_the_handle_whose_scope_expired()
    {
        OutputBuffer? buffer = null;
        var handle = Some.Connection();
        var logger = new CallingLogger(id =>
        {
            if (id == 5)
                buffer!.Write(handle, "from the logger");
        });
        var options = new OutputBufferOptions { MaxScopeAge = TimeSpan.FromSeconds(4), HandleIdleTimeout = TimeSpan.FromSeconds(1) };
        await using (buffer = new OutputBuffer(_arrived, options, timeProvider: _clock, logger: logger))
        {
            buffer.BeginBufferingScope(handle);

            // On a thread of its own: the fault that this test is for spins there.
            var sweep = Task.Factory.StartNew(() => _clock.Advance(TimeSpan.FromSeconds(8)), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);

            await sweep.WithinDeadline();
            Assert.Equal(["from the logger"], _arrived.Texts);
        }
    }

    private OutputBuffer Buffer(ScriptedTransport transport, Observer observer) =>
        new([new OutputRoute(_name, transport)], name: _name, timeProvider: _clock, logger: ThrowingLogger(observer));

    private static Logger<OutputBuffer>? ThrowingLogger(Observer observer) =>
        observer == Observer.Logger ? new Logger<OutputBuffer>(new ThrowingLoggers { Fault = new NotSupportedException("A logger throws.") }) : null;

    private IDisposable? Throwing(Observer observer) => observer switch
    {
        Observer.Logger => null,
        Observer.MeterListener => ThrowingMeterListener(),
        _ => ThrowingActivityListener(observer),
    };

    private MeterListener ThrowingMeterListener()
    {
        var listener = new MeterListener
        {
            InstrumentPublished = (instrument, itself) =>
            {
                if (instrument.Meter.Name == BatchKitMetrics.MeterName && instrument.Meter.Tags?.Any(tag => Equals(tag.Value, _name)) == true)
                    itself.EnableMeasurementEvents(instrument);
            },
        };
        listener.SetMeasurementEventCallback<long>(static (_, _, _, _) => throw new NotSupportedException("A meter listener throws."));
        listener.SetMeasurementEventCallback<double>(static (_, _, _, _) => throw new NotSupportedException("A meter listener throws."));
        listener.Start();
        return listener;
    }

    // Other tests' sends run beside this one's.
    private ActivityListener ThrowingActivityListener(Observer observer)
    {
        var listener = new ActivityListener
        {
            ShouldListenTo = static source => source.Name == BatchKitTracing.SourceName,
            Sample = (ref ActivityCreationOptions<ActivityContext> options) =>
            {
                ThrowWhen(observer == Observer.ActivitySampler && IsOwn(options.Name));
                return IsOwn(options.Name) ? ActivitySamplingResult.AllDataAndRecorded : ActivitySamplingResult.None;
            },
            ActivityStarted = activity => ThrowWhen(observer == Observer.ActivityStarted && IsOwn(activity.OperationName)),
            ActivityStopped = activity => ThrowWhen(observer == Observer.ActivityStopped && IsOwn(activity.OperationName)),
        };
        ActivitySource.AddActivityListener(listener);
        return listener;
    }

    private bool IsOwn(string send) => send == $"send {_name}" || send is "send even" or "send odd";

    private static void ThrowWhen(bool isSo)
    {
        if (isSo)
            throw new NotSupportedException("An activity listener throws.");
    }

    private async Task PassTimeUntilAsync(Task task)
    {
        for (var ending = task.WithinDeadline(); !ending.IsCompleted;)
        {
            _clock.Advance(TimeSpan.FromMilliseconds(50));
            await Task.WhenAny(ending, Task.Delay(1));
        }

        await task;
    }

    private sealed class EvenAndOdd : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => [handle.Number % 2 == 0 ? "even" : "odd"];
    }

    private sealed class CallingLogger(Action<int> call) : ILogger<OutputBuffer>
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) => call(eventId.Id);
    }
}
