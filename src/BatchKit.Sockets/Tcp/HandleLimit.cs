using System.Globalization;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Keeps clients from taking the last file handles of the process. Without one .NET can start no thread, which ends the process.</summary>
internal static class HandleLimit
{
    private const string Path = "/proc/self/limits";
    private const string Name = "Max open files";
    private const int Part = 128;
    private const int LeastReserve = 32;
    private const int MostReserve = 1024;
    private const int RequestPart = 8;

    /// <summary>How many handles the process may have open; null where that is not known, as on other systems than Linux.</summary>
    public static int? OfProcess { get; } = Read();

    /// <summary>True when a client that was just accepted has one of the last handles: the system gives the lowest number that is free.</summary>
    /// <param name="socket">The client's socket.</param>
    /// <param name="most">How many handles the process may have open.</param>
    public static bool IsNear(Socket socket, int? most) => most is { } limit && socket.Handle >= limit - Math.Clamp(limit / Part, LeastReserve, MostReserve);

    /// <summary>How many connections that are no client yet an HTTP server may have. Clients leave that many handles to it.</summary>
    /// <param name="most">How many handles the process may have open.</param>
    public static int ForRequests(int most) => Math.Max(1, most / RequestPart);

    /// <summary>Reads the limit that applies from the text that Linux has for it (proc(5)).</summary>
    public static int? Parse(string limits)
    {
        var line = limits.Split('\n').FirstOrDefault(static line => line.StartsWith(Name, StringComparison.Ordinal));
        var soft = line?[Name.Length..].Split(' ', StringSplitOptions.RemoveEmptyEntries).FirstOrDefault();
        return int.TryParse(soft, NumberStyles.None, CultureInfo.InvariantCulture, out var limit) ? limit : null;
    }

    private static int? Read()
    {
        try
        {
            return OperatingSystem.IsLinux() ? Parse(File.ReadAllText(Path)) : null;
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            // Without a view of itself, as in some sandboxes, the process has only MaxConnections.
            return null;
        }
    }
}
