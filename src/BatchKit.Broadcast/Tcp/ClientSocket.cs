using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>What a client's socket is set to.</summary>
internal static class ClientSocket
{
    // A client that vanished is found after twice the interval.
    private const int Probes = 4;

    // Linux takes no more (tcp.h, MAX_TCP_KEEPIDLE).
    private const int MaxSeconds = 32_767;

    /// <param name="socket">Just accepted.</param>
    /// <param name="keepAliveInterval">After how long a silence the system asks whether the client's machine is there (RFC 9293, section 3.8.4); null for never.</param>
    public static void Configure(Socket socket, TimeSpan? keepAliveInterval)
    {
        // What is sent is a batch already.
        socket.NoDelay = true;
        if (keepAliveInterval is not { } interval)
            return;
        socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, optionValue: true);
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, SecondsOf(interval));
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval, SecondsOf(interval / Probes));
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveRetryCount, Probes);
    }

    private static int SecondsOf(TimeSpan time) => (int)Math.Clamp(Math.Ceiling(time.TotalSeconds), 1, MaxSeconds);
}
