namespace BatchKit.Transports;

/// <summary>The reporters that share one connection. Thread-safe.</summary>
internal sealed class ConnectionReporters
{
    private readonly Lock _lock = new();
    private volatile ConnectionReporter[] _reporters = [];

    /// <summary>Adds a reporter, unless it is there already.</summary>
    public bool TryAdd(ConnectionReporter reporter)
    {
        lock (_lock)
        {
            if (_reporters.Contains(reporter))
                return false;
            _reporters = [.. _reporters, reporter];
            return true;
        }
    }

    public void Open() => Array.ForEach(_reporters, static reporter => reporter.Open());

    public void Lose(string reason) => Array.ForEach(_reporters, reporter => reporter.Lose(reason));

    /// <summary>Closes them, and forgets them.</summary>
    public void Close() => Array.ForEach(Interlocked.Exchange(ref _reporters, []), static reporter => reporter.Close());
}
