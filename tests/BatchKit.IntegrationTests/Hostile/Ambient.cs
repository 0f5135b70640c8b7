using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Transactions;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>A caller's surroundings: an async local, an activity, a transaction, a synchronization context and a culture, and a look whether any of them is here.</summary>
internal static class Ambient
{
    // A culture of its own, because a system may have the invariant one alone.
    private static readonly CultureInfo Culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();

    private static readonly AsyncLocal<string?> Marker = new();

    /// <summary>Runs work in such surroundings.</summary>
    public static Task RunAsync(Func<Task> work) => Task.Run(async () =>
    {
        Marker.Value = "of the caller";
        CultureInfo.CurrentCulture = Culture;
        using var activity = new Activity("caller").Start();
        using var transaction = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled);
        SynchronizationContext.SetSynchronizationContext(new MarkedContext());
        await work();
    });

    /// <summary>Names what of a caller's surroundings is here.</summary>
    public static IEnumerable<string> Find()
    {
        if (Marker.Value is not null)
            yield return "async local";
        if (Activity.Current is { OperationName: "caller" })
            yield return "activity";
        if (Transaction.Current is not null)
            yield return "transaction";
        if (SynchronizationContext.Current is MarkedContext)
            yield return "synchronization context";
        if (ReferenceEquals(CultureInfo.CurrentCulture, Culture))
            yield return "culture";
    }

    private sealed class MarkedContext : SynchronizationContext;
}

/// <summary>Notes which of a caller's surroundings reach the transport behind a receiver, and what a background loop logs.</summary>
internal sealed class AmbientProbe(IBatchTransport next) : IBatchTransport, ILoggerFactory, ILogger
{
    private readonly ConcurrentQueue<string> _found = new();

    public IEnumerable<string> Found => _found.Distinct();

    /// <summary>How often it looked from a logger.</summary>
    public ConcurrentQueue<int> LoggedIds { get; } = new();

    /// <summary>The log entries of background loops; others are logged on their caller's behalf.</summary>
    public int[] BackgroundIds { get; init; } = [];

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        Look("transport");
        return next.SendAsync(batches, cancellationToken);
    }

    public ILogger CreateLogger(string categoryName) => this;

    public void AddProvider(ILoggerProvider provider) => throw new NotSupportedException("It is the only one.");

    public IDisposable? BeginScope<TState>(TState state)
        where TState : notnull => null;

    public bool IsEnabled(LogLevel logLevel) => true;

    public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
    {
        LoggedIds.Enqueue(eventId.Id);
        if (BackgroundIds.Contains(eventId.Id))
            Look($"log {eventId.Id}");
    }

    public void Dispose()
    {
        // It holds nothing.
    }

    private void Look(string place)
    {
        foreach (var found in Ambient.Find())
            _found.Enqueue($"{found} in {place}");
    }
}
