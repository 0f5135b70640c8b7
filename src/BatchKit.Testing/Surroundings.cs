using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Testing;

/// <summary>The clock and the loggers that a program gives to a transport and its receiver.</summary>
public sealed record Surroundings
{
    /// <summary>The clock; the system's by default.</summary>
    public TimeProvider TimeProvider { get; init; } = TimeProvider.System;

    /// <summary>Creates the loggers; by default they log nothing.</summary>
    public ILoggerFactory LoggerFactory { get; init; } = NullLoggerFactory.Instance;

    /// <summary>A typed logger of <see cref="LoggerFactory"/>.</summary>
    /// <typeparam name="T">The type that logs.</typeparam>
    public ILogger<T> CreateLogger<T>() => new Logger<T>(LoggerFactory);
}

/// <summary>Creates loggers that throw, as a logger with a full disk or a disposed provider does. Every member may be called from any thread.</summary>
/// <remarks>All loggers of one factory count their calls together: <see cref="ILogger.IsEnabled"/>, <see cref="ILogger.Log"/> and <see cref="ILogger.BeginScope"/>.</remarks>
/// <param name="polite">How many calls pass before the loggers begin to throw; zero for none.</param>
/// <param name="faults">How many calls throw then; all by default.</param>
public sealed class ThrowingLoggerFactory(int polite, int faults = int.MaxValue) : ILoggerFactory
{
    private int _calls;
    private int _thrown;

    /// <summary>How many calls threw.</summary>
    public int Thrown => Volatile.Read(ref _thrown);

    /// <inheritdoc/>
    public ILogger CreateLogger(string categoryName) => new ThrowingLogger(this);

    /// <summary>Does nothing: its loggers have their own sink.</summary>
    /// <param name="provider">Ignored.</param>
    public void AddProvider(ILoggerProvider provider)
    {
    }

    /// <inheritdoc/>
    public void Dispose()
    {
    }

    private void OnCall()
    {
        var call = Interlocked.Increment(ref _calls);
        if (call <= polite || call - polite > faults)
            return;
        Interlocked.Increment(ref _thrown);
        throw new IOException("The log's disk is full.");
    }

    private sealed class ThrowingLogger(ThrowingLoggerFactory owner) : ILogger
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull
        {
            owner.OnCall();
            return null;
        }

        public bool IsEnabled(LogLevel logLevel)
        {
            owner.OnCall();
            return true;
        }

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            ArgumentNullException.ThrowIfNull(formatter);
            _ = formatter(state, exception);
            owner.OnCall();
        }
    }
}
