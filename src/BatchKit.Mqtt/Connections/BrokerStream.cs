using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;

namespace BatchKit.Mqtt.Connections;

/// <summary>The bytes to and from a broker, and the socket that carries them below TLS or WebSocket.</summary>
internal sealed class BrokerStream(Socket socket, Stream stream, WebSocket? webSocket = null) : IDisposable
{
    private const int TcpLevel = 6;
    private const int QuickAcknowledgeOption = 12;

    private static readonly byte[] On = [1, 0, 0, 0];

    public Stream Stream { get; } = stream;

    /// <summary>Has the kernel acknowledge what was read now; it forgets that again, so it is to be said after each read (tcp(7), TCP_QUICKACK).</summary>
    public void AcknowledgeAtOnce()
    {
        if (OperatingSystem.IsLinux())
            socket.SetRawSocketOption(TcpLevel, QuickAcknowledgeOption, On);
    }

    /// <summary>Tells the broker that nothing more comes. Its answer is the end of what it sends.</summary>
    public async Task EndWritingAsync(CancellationToken cancellationToken)
    {
        if (webSocket is not null)
        {
            await webSocket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, statusDescription: null, cancellationToken).ConfigureAwait(false);
            return;
        }

        if (Stream is SslStream tls)
            await tls.ShutdownAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
        socket.Shutdown(SocketShutdown.Send);
    }

    /// <summary>Closes at once; a read or write under way fails.</summary>
    public void Dispose()
    {
        socket.Dispose();
        webSocket?.Dispose();
        Stream.Dispose();
    }
}

/// <summary>What a broken stream throws.</summary>
internal static class StreamFaults
{
    public static bool Covers(Exception exception) => exception is IOException or SocketException or WebSocketException or ObjectDisposedException;

    /// <summary>The cause for a person: a socket's own error says more than what wraps it.</summary>
    public static string Describe(Exception exception)
    {
        var cause = exception;
        while (cause.InnerException is { } inner)
            cause = inner;
        return cause.Message.EndsWith('.') ? cause.Message : $"{cause.Message}.";
    }
}
