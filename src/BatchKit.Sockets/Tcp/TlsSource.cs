using System.Net.Security;
using System.Net.Sockets;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Reads a client's TLS stream, and holds the gate between reading and ending it: SslStream synchronizes writes with reads, but not ShutdownAsync.</summary>
internal sealed class TlsSource : IByteSource, IAsyncDisposable
{
    private readonly SemaphoreSlim _gate = new(initialCount: 1, maxCount: 1);
    private readonly Socket _socket;

    public TlsSource(Socket socket)
    {
        _socket = socket;
        Stream = new SslStream(new TlsNetworkStream(socket, _gate));
    }

    public SslStream Stream { get; }

    public async Task AuthenticateAsync(SslServerAuthenticationOptions options, CancellationToken cancellationToken)
    {
        await _gate.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            await Stream.AuthenticateAsServerAsync(options, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _gate.Release();
        }
    }

    public ValueTask<int> WaitAsync() => ReadAsync(Memory<byte>.Empty);

    public async ValueTask<int> ReadAsync(Memory<byte> buffer)
    {
        await _gate.WaitAsync().ConfigureAwait(false);
        try
        {
            return await Stream.ReadAsync(buffer).ConfigureAwait(false);
        }
        finally
        {
            _gate.Release();
        }
    }

    /// <summary>Sends close_notify (RFC 8446, section 6.1) and ends the sending side.</summary>
    public async ValueTask FinishAsync()
    {
        await _gate.WaitAsync().ConfigureAwait(false);
        try
        {
            await Stream.ShutdownAsync().ConfigureAwait(false);
        }
        finally
        {
            _gate.Release();
        }

        _socket.Shutdown(SocketShutdown.Send);
    }

    public async ValueTask DisposeAsync()
    {
        await Stream.DisposeAsync().ConfigureAwait(false);
        _gate.Dispose();
    }
}

/// <summary>The stream under TLS. It opens the gate while it waits for the client, because nothing is decrypted meanwhile.</summary>
internal sealed class TlsNetworkStream(Socket socket, SemaphoreSlim gate) : NetworkStream(socket)
{
    public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        gate.Release();
        try
        {
            return await base.ReadAsync(buffer, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            await gate.WaitAsync(CancellationToken.None).ConfigureAwait(false);
        }
    }
}
