using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A client's opening handshake (RFC 6455, section 4.1), for <c>/ws</c>.</summary>
internal static class WebSocketHandshake
{
    private const string Key = "dGhlIHNhbXBsZSBub25jZQ==";
    private const string Accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    public static async Task DoAsync(Socket socket, IPEndPoint endPoint)
    {
        var request = $"GET /ws HTTP/1.1\r\nHost: {endPoint}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {Key}\r\nSec-WebSocket-Version: 13\r\n\r\n";
        await socket.SendAsync(Encoding.ASCII.GetBytes(request));

        // Byte by byte, so that what comes behind the answer stays in the socket.
        var answer = new StringBuilder();
        var one = new byte[1];
        while (!answer.ToString().EndsWith("\r\n\r\n", StringComparison.Ordinal))
        {
            if (await socket.ReceiveAsync(one.AsMemory(), SocketFlags.None) == 0)
                throw new InvalidDataException($"The server ended the connection after: {answer}");
            answer.Append((char)one[0]);
        }

        if (!answer.ToString().StartsWith("HTTP/1.1 101 ", StringComparison.Ordinal) || !answer.ToString().Contains(Accept, StringComparison.Ordinal))
            throw new InvalidDataException($"The server answered: {answer}");
    }
}
