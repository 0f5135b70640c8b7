using System.Net;
using System.Net.Sockets;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>Two sockets that are connected to each other.</summary>
internal static class SocketPair
{
    /// <param name="bufferBytes">So small are the buffers from the server to the client, so that a reader's pace is felt; the system's when null.</param>
    public static async Task<(Socket Client, Socket Server)> ConnectAsync(int? bufferBytes = null)
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        if (bufferBytes is { } clientBytes)
            client.ReceiveBufferSize = clientBytes;
        await client.ConnectAsync(listener.LocalEndpoint).WithinDeadline();
        var server = await listener.AcceptSocketAsync().WithinDeadline();
        if (bufferBytes is { } serverBytes)
            server.SendBufferSize = serverBytes;
        return (client, server);
    }
}
