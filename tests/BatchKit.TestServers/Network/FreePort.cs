using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace BatchKit.TestServers.Network;

/// <summary>Finds loopback ports that nobody listens on, and that stay a server's own while it is stopped and started again.</summary>
public static class FreePort
{
    private const string SystemsOwnPorts = "/proc/sys/net/ipv4/ip_local_port_range";
    private const int First = 10_000;
    private const int UsualEnd = 32_768;
    private const int MaxTries = 10_000;

    // Guarded by itself: what this process gave out, it gives nobody else.
    private static readonly HashSet<int> Taken = [];

    /// <summary>Different ports, free now, outside of those that the system gives to connections and to listeners on port 0.</summary>
    public static int[] Take(int count)
    {
        lock (Taken)
            return [.. Enumerable.Range(0, count).Select(_ => TakeOne())];
    }

    private static int TakeOne()
    {
        var end = FirstOfTheSystem();
        for (var tries = 0; tries < MaxTries; tries++)
        {
            // At random, because other processes look for ports too.
            var port = Random.Shared.Next(First, end);
            if (!Taken.Contains(port) && IsFree(port))
            {
                Taken.Add(port);
                return port;
            }
        }

        throw new ServerStartException($"No port from {First} to {end} is free.");
    }

    private static bool IsFree(int port)
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            socket.Bind(new IPEndPoint(IPAddress.Loopback, port));
            socket.Listen();
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    // Linux' default is 32,768 to 60,999, elsewhere it is 49,152 and up. Where the system has nearly all, there is nothing better than to try.
    private static int FirstOfTheSystem()
    {
        if (!File.Exists(SystemsOwnPorts))
            return UsualEnd;
        var range = File.ReadAllText(SystemsOwnPorts).Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries);
        var first = int.Parse(range[0], CultureInfo.InvariantCulture);
        return first > 2 * First ? first : UsualEnd;
    }
}
