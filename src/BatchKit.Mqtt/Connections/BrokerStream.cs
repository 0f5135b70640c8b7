using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;
using BatchKit.Diagnostics;

namespace BatchKit.Mqtt.Connections;

/// <summary>The byte stream to and from a broker, and the socket below its TLS or WebSocket.</summary>
internal sealed class BrokerStream(Socket socket, Stream stream, WebSocket? webSocket = null) : IDisposable
{
    private const int TcpLevel = 6;
    private const int QuickAcknowledgeOption = 12;
    private const int MostOfWebSocketFrame = 4096;

    private static readonly byte[] On = [1, 0, 0, 0];

    public Stream Stream { get; } = stream;

    /// <summary>True when its calls block; it is then read on a thread of its own.</summary>
    public bool Blocks => Stream is BlockingStream;

    /// <summary>Reads what has come; zero bytes at the end.</summary>
    /// <remarks>A WebSocket fills all the memory that it gets before it returns, unless its frame ends. A large packet that comes slowly would look like silence, so the memory is small.</remarks>
    public ValueTask<int> ReadAsync(Memory<byte> memory) =>
        Stream.ReadAsync(webSocket is null || memory.Length <= MostOfWebSocketFrame ? memory : memory[..MostOfWebSocketFrame], CancellationToken.None);

    /// <summary>Makes the kernel acknowledge immediately what was read. The option is not permanent, so it must be set after each read (tcp(7), TCP_QUICKACK).</summary>
    public void AcknowledgeAtOnce()
    {
        if (OperatingSystem.IsLinux())
            socket.SetRawSocketOption(TcpLevel, QuickAcknowledgeOption, On);
    }

    /// <summary>Ends the outgoing direction. The broker answers by ending its own.</summary>
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

    /// <summary>Closes immediately; a read or write under way fails.</summary>
    public void Dispose()
    {
        if (Blocks)
            BlockingStream.Close(socket);
        else
            socket.Dispose();
        webSocket?.Dispose();
        Stream.Dispose();
    }
}

/// <summary>Recognizes and describes the exceptions of a broken stream.</summary>
internal static class StreamFaults
{
    public static bool Covers(Exception exception) => exception is IOException or SocketException or WebSocketException or ObjectDisposedException;

    /// <summary>Returns a human-readable cause: the message of the innermost exception, because a socket's error is more specific than the exceptions around it.</summary>
    public static string Describe(Exception exception)
    {
        var text = FailureText.MessageOf(FailureText.CauseOf(exception));
        return text.EndsWith('.') ? text : $"{text}.";
    }
}
