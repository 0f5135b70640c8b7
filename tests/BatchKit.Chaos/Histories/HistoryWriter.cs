using System.Diagnostics;
using System.Text;

namespace BatchKit.Chaos.Histories;

/// <summary>Appends a process' history to its file. Each call is one write of the system, so what it returned from outlives a kill of the process.</summary>
internal sealed class HistoryWriter(string path) : IDisposable
{
    // Guards the file.
    private readonly Lock _lock = new();
    private readonly FileStream _file = new(path, FileMode.CreateNew, FileAccess.Write, FileShare.Read, bufferSize: 0);

    public void Write(Func<long, HistoryEvent> create) => Write([create(Stopwatch.GetTimestamp())]);

    public void Write(IReadOnlyList<HistoryEvent> events)
    {
        var text = new StringBuilder();
        foreach (var each in events)
            text.Append(each).Append('\n');
        var bytes = Encoding.UTF8.GetBytes(text.ToString());
        lock (_lock)
            _file.Write(bytes);
    }

    public void Dispose() => _file.Dispose();
}
