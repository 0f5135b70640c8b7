using System.Globalization;

namespace BatchKit.Benchmarks.Measuring;

/// <summary>What a suite of several processes needs.</summary>
internal static class Machine
{
    // The runtime's own files, with room.
    private const int OwnFiles = 300;

    /// <summary>Why the suites' load can't run here; null when it can.</summary>
    public static string? WhyUnfit => OperatingSystem.IsLinux() ? null : "It needs Linux: the load's processes read with epoll.";

    /// <exception cref="InvalidOperationException">A process here may not have so many connections.</exception>
    public static void Require(int connections)
    {
        if (WhyUnfit is { } reason)
            throw new InvalidOperationException(reason);
        var limit = File.ReadLines("/proc/self/limits").First(line => line.StartsWith("Max open files", StringComparison.Ordinal))
            .Split(' ', StringSplitOptions.RemoveEmptyEntries)[4];
        if (long.TryParse(limit, CultureInfo.InvariantCulture, out var files) && files < connections + OwnFiles)
            throw new InvalidOperationException($"{connections} connections need more files than a process may have here ({files}): raise it, as by 'ulimit -n'.");
    }
}
