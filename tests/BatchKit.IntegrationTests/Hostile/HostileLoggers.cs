using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>Loggers of this project's and MassTransit's categories that throw at chosen calls, counted over all of them.</summary>
internal sealed class HostileLoggers(Func<int, bool> throwsAt) : ILoggerProvider, ILoggerFactory, ILogger
{
    private int _calls;
    private int _thrown;

    public int Thrown => Volatile.Read(ref _thrown);

    /// <summary>Creates loggers that throw at the first call, the second, a random one of ten, or always.</summary>
    public static HostileLoggers At(string call)
    {
        var random = Random.Shared.Next(1, 11);
        return new HostileLoggers(call switch
        {
            "first" => static number => number == 1,
            "second" => static number => number == 2,
            "random" => number => number % random == 0,
            _ => static _ => true,
        });
    }

    public ILogger CreateLogger(string categoryName) =>
        categoryName.Contains("BatchKit", StringComparison.Ordinal) || categoryName.Contains("MassTransit", StringComparison.Ordinal) ? this : Microsoft.Extensions.Logging.Abstractions.NullLogger.Instance;

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (!throwsAt(Interlocked.Increment(ref _calls)))
            return;
        Interlocked.Increment(ref _thrown);
        throw new NotSupportedException("The logger fails.");
    }

    public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException("It is the only one.");

    public void Dispose()
    {
        // Nothing is held.
    }
}
