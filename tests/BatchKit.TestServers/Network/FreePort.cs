using System.Net;
using System.Net.Sockets;

namespace BatchKit.TestServers.Network;

/// <summary>Finds loopback ports that nobody listens on.</summary>
public static class FreePort
{
    /// <summary>Different ports that were free a moment ago.</summary>
    public static int[] Take(int count)
    {
        // All are held until all are known, or the system could give one out twice.
        var listeners = new TcpListener[count];
        for (var index = 0; index < count; index++)
        {
            listeners[index] = new TcpListener(IPAddress.Loopback, port: 0);
            listeners[index].Start();
        }

        var ports = Array.ConvertAll(listeners, listener => ((IPEndPoint)listener.LocalEndpoint).Port);
        foreach (var listener in listeners)
            listener.Dispose();
        return ports;
    }
}
