using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Lets one client in: finds a place for it, reads its proxy's header and shakes hands for TLS, all within <see cref="BroadcastOptions.HandshakeTimeout"/>.</summary>
internal sealed class ClientEntry(BroadcastTransport transport, BroadcastListenerOptions options, TimeProvider timeProvider, ILogger logger)
{
    private readonly byte[] _turnAwayMessage = options.Tls is null ? Encoding.UTF8.GetBytes(transport.Options.TurnAwayMessage ?? "") : [];

    /// <returns>Null when it may not come in.</returns>
    public async Task<ClientChannel?> EnterAsync(Socket socket, ClientPlace place, CancellationToken stopping)
    {
        ClientSocket.Configure(socket, transport.Options.KeepAliveInterval);
        var peer = Plain((IPEndPoint)socket.RemoteEndPoint!);
        if (!place.TryTake(options.UseProxyProtocol ? null : peer.Address))
            return TurnAway(socket);
        if (!options.UseProxyProtocol && options.Tls is null)
            return MakePlain(socket, new ConnectionOrigin(peer, IsSecure: false));
        using var limit = new CancellationTokenSource(transport.Options.HandshakeTimeout, timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, stopping);
        try
        {
            var origin = new ConnectionOrigin(peer, IsSecure: false);
            if (options.UseProxyProtocol)
            {
                origin = await ReadOriginAsync(socket, peer, either.Token).ConfigureAwait(false);
                if (!place.TryTake(origin.RemoteEndPoint?.Address))
                    return TurnAway(socket);
            }

            return options.Tls is null ? MakePlain(socket, origin) : await MakeSecureAsync(socket, origin, options.Tls, either.Token).ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            // Whatever it is, a TLS callback's exception too, it ends this client only.
            Log.HandshakeFailed(logger, peer, limit.IsCancellationRequested ? "it took too long" : failure.Message);
            return null;
        }
    }

    private async Task<ConnectionOrigin> ReadOriginAsync(Socket socket, IPEndPoint peer, CancellationToken cancellationToken)
    {
        if (!transport.Options.TrustedProxies.Any(network => network.Contains(peer.Address)))
            throw new InvalidDataException("it is no trusted proxy");
        var header = await ProxyHeaderReader.ReadAsync(socket, cancellationToken).ConfigureAwait(false) ?? throw new InvalidDataException("it sent no valid PROXY header");
        if (!header.IsPassedOn)
            return new ConnectionOrigin(peer, IsSecure: false);
        return new ConnectionOrigin(header.Client is null ? null : Plain(header.Client), header.IsSecure);
    }

    private ClientChannel? TurnAway(Socket socket)
    {
        Log.TurnedAway(logger, "no place is left");
        socket.Blocking = false;
        socket.Send(_turnAwayMessage, SocketFlags.None, out _);

        // What was sent would be lost if the socket were closed with input unread.
        socket.Receive(stackalloc byte[1024], SocketFlags.None, out _);
        return null;
    }

    private static ClientChannel MakePlain(Socket socket, ConnectionOrigin origin) => new(new SocketWire(socket), new SocketSource(socket), origin);

    private static async Task<ClientChannel> MakeSecureAsync(
        Socket socket, ConnectionOrigin origin, SslServerAuthenticationOptions tls, CancellationToken cancellationToken)
    {
        var source = new TlsSource(socket);
        try
        {
            await source.AuthenticateAsync(tls, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            await source.DisposeAsync().ConfigureAwait(false);
            throw;
        }

        return new ClientChannel(new StreamWire(source.Stream, source.FinishAsync, socket.Dispose), source, origin with { IsSecure = true });
    }

    // A socket for both families shows IPv4 addresses as IPv6 ones.
    private static IPEndPoint Plain(IPEndPoint endPoint) =>
        endPoint.Address.IsIPv4MappedToIPv6 ? new IPEndPoint(endPoint.Address.MapToIPv4(), endPoint.Port) : endPoint;
}
