using System.Globalization;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Postgres;

/// <summary>The processes that a postmaster has started: one for each connection, and its own.</summary>
internal static class PostgresChildren
{
    private const string ProcessFolder = "/proc";

    // What ends the server with these tests is a child of it too, and ends only when its pipe is closed.
    private const string Name = "(postgres)";

    /// <summary>A process's children that run now; none where the system does not say.</summary>
    public static int[] Of(int processId)
    {
        if (!Directory.Exists(ProcessFolder))
            return [];
        return [.. Directory.EnumerateDirectories(ProcessFolder)
            .Select(folder => int.TryParse(Path.GetFileName(folder), NumberStyles.None, CultureInfo.InvariantCulture, out var id) ? id : 0)
            .Where(id => id > 0 && Read(id) is { IsServer: true, HasEnded: false } state && state.Parent == processId)];
    }

    /// <summary>Waits until they have ended, as they do once they see that their parent has; kills them past the limit.</summary>
    public static async Task WaitForExitAsync(int[] children, TimeSpan limit)
    {
        using var deadline = new CancellationTokenSource(limit);
        while (Array.Exists(children, IsRunning))
        {
            if (deadline.IsCancellationRequested)
                Array.ForEach(children, child => Signal.Send(child, Signal.Kill));
            await Task.Delay(TimeSpan.FromMilliseconds(5));
        }
    }

    // One that nobody has waited for still has its number: in a container the first process may be no init.
    private static bool IsRunning(int processId) => Directory.Exists(ProcessFolder) && Read(processId) is { HasEnded: false };

    // "pid (name) state parent ..."; the name may have blanks and brackets (proc(5)).
    private static (bool IsServer, bool HasEnded, int Parent)? Read(int processId)
    {
        try
        {
            var stat = File.ReadAllText($"{ProcessFolder}/{processId}/stat");
            var fields = stat[(stat.LastIndexOf(')') + 2)..].Split(' ');
            return (stat.Contains(Name, StringComparison.Ordinal), fields[0] is "Z" or "X", int.Parse(fields[1], CultureInfo.InvariantCulture));
        }
        catch (IOException)
        {
            // It has ended since it was listed.
            return null;
        }
    }
}
