using System.Net;
using System.Net.Sockets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Connects a socket to the first of a host's addresses that answers.</summary>
internal static class TcpDialer
{
    /// <param name="host">A name or an address.</param>
    /// <param name="port">The port.</param>
    /// <param name="limit">Shared out among the addresses, so that one that swallows everything leaves time for the next.</param>
    /// <param name="timeProvider">The time.</param>
    /// <param name="cancellationToken">Gives up.</param>
    /// <exception cref="SocketException">None answered; this is the last one's error.</exception>
    public static async Task<Socket> ConnectAsync(string host, int port, TimeSpan limit, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        var addresses = IPAddress.TryParse(host, out var only) ? [only] : await Dns.GetHostAddressesAsync(host, cancellationToken).ConfigureAwait(false);
        if (addresses.Length == 0)
            throw new SocketException((int)SocketError.HostNotFound);
        for (var index = 0; ; index++)
        {
            var isLast = index == addresses.Length - 1;
            using var share = new CancellationTokenSource(isLast ? Timeout.InfiniteTimeSpan : limit / addresses.Length, timeProvider);
            using var either = CancellationTokenSource.CreateLinkedTokenSource(share.Token, cancellationToken);
            try
            {
                return await ConnectAsync(new IPEndPoint(addresses[index], port), either.Token).ConfigureAwait(false);
            }
            catch (Exception exception) when (!isLast && (exception is SocketException || share.IsCancellationRequested))
            {
                // The next address may answer.
                cancellationToken.ThrowIfCancellationRequested();
            }
        }
    }

    private static async Task<Socket> ConnectAsync(IPEndPoint endPoint, CancellationToken cancellationToken)
    {
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            await socket.ConnectAsync(endPoint, cancellationToken).ConfigureAwait(false);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }
}
