using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Diagnostics;

public sealed class GuardedLoggerTests
{
    [Fact]
    public void What_a_logger_throws_is_counted_at_every_member()
    {
        var faults = new ObserverFaults();
        var logger = new GuardedLogger(new ThrowingLoggerFactory(polite: 0).CreateLogger("any"), faults);

        Assert.Null(logger.BeginScope("scope"));
        Assert.False(logger.IsEnabled(LogLevel.Error));
        logger.Log(LogLevel.Error, new EventId(1), "state", exception: null, static (state, _) => state);

        Assert.Equal(3, faults.Count);
        Assert.Equal("Loggers, listeners, routers or callbacks threw 3 times, last IOException.", faults.Description);
    }

    [Fact]
    public void A_logger_is_guarded_once_however_often_it_is_handed_on()
    {
        var logger = GuardedLogger.Of(new ThrowingLoggers());

        Assert.Same(logger, GuardedLogger.Of(logger));
    }

    [Fact]
    public void Without_a_logger_nothing_is_logged_and_nothing_fails()
    {
        var logger = GuardedLogger.Of(null);

        Assert.False(logger.IsEnabled(LogLevel.Critical));
        Assert.Null(logger.Faults.Description);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_a_cancellation_callback_throws_is_counted_and_the_source_is_cancelled(bool isAsync)
    {
        var faults = new ObserverFaults();
        using var source = new CancellationTokenSource();
        source.Token.Register(static () => throw new InvalidOperationException("The callback is broken."));

        if (isAsync)
            await faults.CancelAsync(source);
        else
            faults.Cancel(source);

        Assert.True(source.IsCancellationRequested);
        Assert.Equal("Loggers, listeners, routers or callbacks threw 1 times, last InvalidOperationException.", faults.Description);
        Assert.IsType<InvalidOperationException>(faults.Last?.GetBaseException());
    }
}
