using System.Globalization;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.TestSupport;

/// <summary>Loggers of BatchKit's and MassTransit's categories that are always enabled and throw at chosen log calls, counted over all of them.</summary>
/// <remarks><c>new Logger&lt;T&gt;(loggers)</c> makes a typed logger.</remarks>
/// <param name="throws">Says for the number of a log call, from 1, whether it throws; by default every call does.</param>
public sealed class ThrowingLoggers(Func<int, bool>? throws = null) : ILoggerProvider, ILoggerFactory, ILogger
{
    private int _calls;
    private int _thrown;

    /// <summary>What is thrown.</summary>
    public Exception Fault { get; init; } = new InvalidOperationException("The logger is broken.");

    private string? Category { get; init; }

    /// <summary>How many calls threw.</summary>
    public int Thrown => Volatile.Read(ref _thrown);

    /// <summary>Creates loggers that throw at the <c>first</c> call, the <c>second</c>, <c>random</c> ones, or <c>always</c>. A seed may follow <c>random</c>.</summary>
    /// <param name="calls">Which calls throw.</param>
    /// <param name="category">What the categories contain whose calls are counted and throw; null for all.</param>
    public static ThrowingLoggers At(string calls, string? category = null)
    {
        ArgumentNullException.ThrowIfNull(calls);
        return new ThrowingLoggers(calls.Split(' ') switch
        {
            ["first"] => static call => call == 1,
            ["second"] => static call => call == 2,
            ["random"] => AtRandom(new Random()),
            ["random", var seed] => AtRandom(new Random(int.Parse(seed, CultureInfo.InvariantCulture))),
            ["always"] => null,
            _ => throw new ArgumentOutOfRangeException(nameof(calls), calls, "It is first, second, random or always."),
        })
        {
            Category = category,
        };
    }

    /// <inheritdoc/>
    public ILogger CreateLogger(string categoryName)
    {
        ArgumentNullException.ThrowIfNull(categoryName);
        var isOurs = Category is null ? Has("BatchKit") || Has("MassTransit") : Has(Category);
        return isOurs ? this : NullLogger.Instance;

        bool Has(string part) => categoryName.Contains(part, StringComparison.Ordinal);
    }

    /// <inheritdoc/>
    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    /// <inheritdoc/>
    public bool IsEnabled(LogLevel logLevel) => true;

    /// <inheritdoc/>
    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        if (throws is not null && !throws(Interlocked.Increment(ref _calls)))
            return;
        Interlocked.Increment(ref _thrown);
        throw Fault;
    }

    /// <inheritdoc/>
    public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException("It is the only one.");

    /// <inheritdoc/>
    public void Dispose()
    {
        // It holds nothing.
    }

    // The first one throws in any case, so that there is something to report.
    private static Func<int, bool> AtRandom(Random random) => call =>
    {
        lock (random)
            return call == 1 || random.Next(3) == 0;
    };
}
