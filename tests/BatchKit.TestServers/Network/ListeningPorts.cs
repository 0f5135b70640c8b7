using System.Net.Sockets;

namespace BatchKit.TestServers.Network;

/// <summary>Tells whether a server has started: when it listens on all of its ports, because it opens one after another.</summary>
public static class ListeningPorts
{
    /// <summary>True when each port takes a connection; 0 stands for one that the server has not got.</summary>
    public static async Task<bool> AllOpenAsync(string host, params int[] ports)
    {
        foreach (var port in ports)
        {
            if (port != 0 && !await IsOpenAsync(host, port))
                return false;
        }

        return true;
    }

    private static async Task<bool> IsOpenAsync(string host, int port)
    {
        using var client = new TcpClient();
        try
        {
            await client.ConnectAsync(host, port);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }
}
