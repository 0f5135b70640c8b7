using System.Net;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.EdgeServers;

/// <summary>Accepts on one thread that blocks, and does nothing with the clients.</summary>
internal sealed class BareAcceptServer(Arrivals arrivals) : IEdgeServer
{
    private const int Backlog = 4096;

    private readonly List<Socket> _sockets = [];

    public Task<int> StartAsync(int port)
    {
        var listener = new Socket(SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, port));
        listener.Listen(Backlog);
        new Thread(() => Accept(listener)) { IsBackground = true }.Start();
        return Task.FromResult(((IPEndPoint)listener.LocalEndPoint!).Port);
    }

    private void Accept(Socket listener)
    {
        while (true)
        {
            _sockets.Add(listener.Accept());
            arrivals.Add();
        }
    }
}
