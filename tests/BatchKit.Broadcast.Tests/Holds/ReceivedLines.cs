using System.Diagnostics;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>The lines that a client got, with the times at which they came.</summary>
internal sealed class ReceivedLines
{
    // Guards all fields.
    private readonly Lock _lock = new();
    private readonly List<(string Line, long At)> _lines = [];
    private readonly List<(Func<bool> IsMet, TaskCompletionSource Met)> _waits = [];

    public int Count
    {
        get
        {
            lock (_lock)
                return _lines.Count;
        }
    }

    public string[] All
    {
        get
        {
            lock (_lock)
                return [.. _lines.Select(entry => entry.Line)];
        }
    }

    public IReadOnlyList<(string Line, long At)> Timed
    {
        get
        {
            lock (_lock)
                return [.. _lines];
        }
    }

    public void Add(string line)
    {
        lock (_lock)
        {
            _lines.Add((line, Stopwatch.GetTimestamp()));
            _waits.RemoveAll(wait => wait.IsMet() && wait.Met.TrySetResult());
        }
    }

    /// <summary>Completes when the line has come last.</summary>
    public Task WaitForAsync(string line) => WaitAsync(() => _lines.Count > 0 && _lines[^1].Line == line);

    /// <summary>Completes when so many lines have come.</summary>
    public Task WaitForAsync(int lines) => WaitAsync(() => _lines.Count >= lines);

    private Task WaitAsync(Func<bool> isMet)
    {
        lock (_lock)
        {
            if (isMet())
                return Task.CompletedTask;
            var met = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            _waits.Add((isMet, met));
            return met.Task;
        }
    }
}
