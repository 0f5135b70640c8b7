using System.Net;
using System.Net.Security;
using System.Net.Sockets;

namespace BatchKit.Benchmarks.RawMqtt;

/// <summary>A plain socket of this process whose other end goes on over TLS: the floor and the subscriber read and write sockets themselves.</summary>
internal sealed class TlsRelay : IDisposable
{
    private readonly TcpClient _server = new() { NoDelay = true };
    private readonly SslStream _secure;
    private readonly NetworkStream _plain;
    private readonly Task _relaying;

    /// <exception cref="System.Security.Authentication.AuthenticationException">The server's certificate is not trusted.</exception>
    public TlsRelay(string host, int port)
    {
        _server.Connect(host, port);
        _server.ReceiveTimeout = RawConnection.HandshakeMilliseconds;
        _secure = new SslStream(_server.GetStream(), leaveInnerStreamOpen: false, static (_, certificate, _, errors) => BrokerCertificate.IsTrusted(certificate, errors));
        _secure.AuthenticateAsClient(host);
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        Socket.Connect(listener.LocalEndpoint);
        _plain = new NetworkStream(listener.AcceptSocket(), ownsSocket: true);
        _relaying = Task.WhenAny(CopyAsync(_plain, _secure), CopyAsync(_secure, _plain));
    }

    /// <summary>The end for this process.</summary>
    public Socket Socket { get; } = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };

    public void Dispose()
    {
        Socket.Dispose();
        _plain.Dispose();
        _secure.Dispose();
        _server.Dispose();
        _relaying.GetAwaiter().GetResult();
    }

    private static async Task CopyAsync(Stream from, Stream to)
    {
        try
        {
            await from.CopyToAsync(to);
        }
        catch (Exception end) when (end is IOException or ObjectDisposedException)
        {
            // An end has closed.
        }

        // The other end learns it.
        await to.DisposeAsync();
    }
}
