using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Admits one client: takes a place for it, reads its proxy's header and does the TLS handshake, all within <see cref="BroadcastOptions.HandshakeTimeout"/>.</summary>
internal sealed class ClientEntry(BroadcastTransport transport, BroadcastListenerOptions options, TimeProvider timeProvider, ILogger logger)
{
    private const string LimitReached = "the connection limit is reached";

    private readonly byte[] _turnAwayMessage = options.Tls is null ? Encoding.UTF8.GetBytes(transport.Options.TurnAwayMessage ?? "") : [];

    /// <returns>Null when the client was turned away or failed.</returns>
    public async Task<ClientChannel?> EnterAsync(Socket socket, ClientPlace place, CancellationToken stopping)
    {
        ClientSocket.Configure(socket, transport.Options.KeepAliveInterval, transport.Options.SendBufferBytes, isTelnet: options.Protocol == ClientProtocol.Telnet);
        var peer = Plain((IPEndPoint)socket.RemoteEndPoint!);
        if (!place.TryTake(options.UseProxyProtocol ? null : peer.Address))
            return TurnAway(socket, LimitReached);
        if (!options.UseProxyProtocol && options.Tls is null)
            return CreatePlain(socket, new ConnectionOrigin(peer, IsSecure: false));
        using var limit = new CancellationTokenSource(transport.Options.HandshakeTimeout, timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, stopping);
        try
        {
            var origin = new ConnectionOrigin(peer, IsSecure: false);
            if (options.UseProxyProtocol)
            {
                origin = await ReadOriginAsync(socket, peer, either.Token).ConfigureAwait(false);
                if (!place.TryAssign(origin.RemoteEndPoint?.Address))
                    return TurnAway(socket, LimitReached);
            }

            return options.Tls is null ? CreatePlain(socket, origin) : await CreateSecureAsync(socket, origin, options.Tls, either.Token).ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            // Any failure, even of a TLS callback, ends this client only. What the listener's stop ends is no client's failure.
            if (!stopping.IsCancellationRequested)
                Log.HandshakeFailed(logger, transport.LogThrottle, peer, limit.IsCancellationRequested ? "it took too long" : FailureText.MessageOf(failure));
            return null;
        }
    }

    /// <summary>Tells a client that there is no place, and why in the log.</summary>
    public ClientChannel? TurnAway(Socket socket, string reason)
    {
        Log.TurnedAway(logger, reason);
        Log.ClientsTurnedAway(logger, transport.LogThrottle, transport.Options);
        socket.Blocking = false;
        socket.Send(_turnAwayMessage, SocketFlags.None, out _);

        // Closing the socket with unread input would lose what was sent.
        socket.Receive(stackalloc byte[1024], SocketFlags.None, out _);
        return null;
    }

    private async Task<ConnectionOrigin> ReadOriginAsync(Socket socket, IPEndPoint peer, CancellationToken cancellationToken)
    {
        if (!transport.Options.TrustedProxies.Any(network => network.Contains(peer.Address)))
            throw new InvalidDataException("it is not a trusted proxy");
        var header = await ProxyHeaderReader.ReadAsync(socket, cancellationToken).ConfigureAwait(false) ?? throw new InvalidDataException("it sent no valid PROXY header");
        if (!header.IsPassedOn)
            return new ConnectionOrigin(peer, IsSecure: false);
        return new ConnectionOrigin(header.Client is null ? null : Plain(header.Client), header.IsSecure);
    }

    private static ClientChannel CreatePlain(Socket socket, ConnectionOrigin origin) => new(new SocketWire(socket), new SocketSource(socket), origin);

    private static async Task<ClientChannel> CreateSecureAsync(
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

        return new ClientChannel(new StreamWire(source.Stream, socket, source.FinishAsync), source, origin with { IsSecure = true });
    }

    // A dual-mode socket shows IPv4 addresses as IPv6 addresses.
    private static IPEndPoint Plain(IPEndPoint endPoint) =>
        endPoint.Address.IsIPv4MappedToIPv6 ? new IPEndPoint(endPoint.Address.MapToIPv4(), endPoint.Port) : endPoint;
}

/// <summary>An established connection to a client, plain or encrypted.</summary>
/// <param name="Wire">Writes to it.</param>
/// <param name="Source">Reads it.</param>
/// <param name="Origin">Where the client comes from.</param>
internal sealed record ClientChannel(IWire Wire, IByteSource Source, ConnectionOrigin Origin);

/// <summary>Sets the options of a client's socket.</summary>
internal static class ClientSocket
{
    // A vanished client is detected after twice the interval.
    private const int Probes = 4;

    // The limit of Linux (tcp.h, MAX_TCP_KEEPIDLE).
    private const int MaxSeconds = 32_767;

    /// <param name="socket">A socket that was just accepted.</param>
    /// <param name="keepAliveInterval">How long a connection may be silent before the system probes the client's machine (RFC 9293, section 3.8.4); null for never.</param>
    /// <param name="sendBufferBytes">See <see cref="BroadcastOptions.SendBufferBytes"/>.</param>
    /// <param name="isTelnet">True for a telnet client. The data mark of its Synch comes as urgent data (RFC 854), and belongs to the stream: without it the command before it would take the next byte of text.</param>
    public static void Configure(Socket socket, TimeSpan? keepAliveInterval, int? sendBufferBytes, bool isTelnet)
    {
        // Each write is already a batch.
        socket.NoDelay = true;
        if (sendBufferBytes is { } bytes)
            socket.SendBufferSize = bytes;
        if (isTelnet)
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.OutOfBandInline, optionValue: true);
        if (keepAliveInterval is not { } interval)
            return;
        socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, optionValue: true);
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, SecondsOf(interval));
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval, SecondsOf(interval / Probes));
        socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveRetryCount, Probes);
    }

    private static int SecondsOf(TimeSpan time) => (int)Math.Clamp(Math.Ceiling(time.TotalSeconds), 1, MaxSeconds);
}
