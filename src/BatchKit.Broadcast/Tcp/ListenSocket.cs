using System.Net;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Opens a socket that listens.</summary>
internal static class ListenSocket
{
    /// <exception cref="IOException">It can't listen there; the message names the end point and the setting.</exception>
    public static Socket Open(IPEndPoint endPoint, int backlog)
    {
        Socket? socket = null;
        try
        {
            socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
            if (endPoint.Address.Equals(IPAddress.IPv6Any))
                socket.DualMode = true;
            socket.Bind(endPoint);
            socket.Listen(backlog);
            return socket;
        }
        catch (SocketException failure)
        {
            socket?.Dispose();
            throw new IOException($"Could not listen on {endPoint}, the listener's setting {nameof(BroadcastListenerOptions.EndPoint)}: {failure.Message}", failure);
        }
    }
}
