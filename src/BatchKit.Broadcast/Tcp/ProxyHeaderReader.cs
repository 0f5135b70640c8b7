using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Reads a PROXY header off a socket, and not a byte more: what follows is the client's, perhaps TLS.</summary>
internal static class ProxyHeaderReader
{
    /// <returns>Null when there is none, or it is malformed.</returns>
    public static async Task<ProxyHeader?> ReadAsync(Socket socket, CancellationToken cancellationToken)
    {
        var bytes = new byte[ProxyHeaderParser.MaxBytes];
        var length = 0;
        while (true)
        {
            var seen = await socket.ReceiveAsync(bytes.AsMemory(length), SocketFlags.Peek, cancellationToken).ConfigureAwait(false);
            if (seen == 0)
                return null;
            var result = ProxyHeaderParser.Parse(bytes.AsSpan(0, length + seen), out var header, out var consumed);
            if (result == ProxyHeaderResult.Malformed)
                return null;

            // As long as it is incomplete, all that was seen is part of it.
            var taken = result == ProxyHeaderResult.Complete ? consumed - length : seen;
            await socket.ReceiveAsync(bytes.AsMemory(length, taken), SocketFlags.None, cancellationToken).ConfigureAwait(false);
            if (result == ProxyHeaderResult.Complete)
                return header;
            length += taken;
        }
    }
}
