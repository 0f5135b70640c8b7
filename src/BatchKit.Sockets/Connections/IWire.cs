using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>Writes a connection's bytes to its client. One <see cref="SendQueue"/> calls it, one call at a time.</summary>
/// <remarks>A broken connection throws <see cref="IOException"/>, <see cref="System.Net.Sockets.SocketException"/> or <see cref="ObjectDisposedException"/>.</remarks>
internal interface IWire
{
    /// <summary>True while it holds bytes that it took and has not written yet; <see cref="WriteAsync"/> writes them first. Never throws.</summary>
    bool HasUnsent => false;

    /// <summary>How many bytes the client's system has acknowledged; null where that is not known. Never throws.</summary>
    /// <remarks>It rises while the client reads, also while a write waits: a socket that was full is writable again only once a large part of its buffer is free, up to 1.3 MB on Linux.</remarks>
    long? AcknowledgedBytes => null;

    /// <summary>Writes what can be written without waiting.</summary>
    /// <returns>How many bytes were taken, from the first; fewer than given when the client does not read fast enough.</returns>
    int TryWrite(ReadOnlySpan<byte> bytes);

    /// <summary>Writes all bytes, waiting for the client to read. The caller may reuse the memory when the task has ended.</summary>
    ValueTask WriteAsync(ReadOnlyMemory<byte> bytes);

    /// <summary>Ends the sending side after the last byte.</summary>
    ValueTask FinishAsync();

    /// <summary>Ends the connection at once; pending writes and reads fail. It may be called at any time, from any thread, during any other call.</summary>
    void Abort();

    /// <summary>Ends a connection at once. Never throws.</summary>
    static void AbortAnyway(IWire wire)
    {
        try
        {
            wire.Abort();
        }
        catch (Exception)
        {
            // The connection has ended anyway. What its socket, its server or a logger throws must not end the send to every other connection.
        }
    }
}

/// <summary>A plain TCP socket, written to directly.</summary>
internal sealed class SocketWire : IWire
{
    private readonly Socket _socket;

    public SocketWire(Socket socket)
    {
        // A synchronous send on a blocking socket would wait for the client to read.
        socket.Blocking = false;
        _socket = socket;
    }

    public long? AcknowledgedBytes => Acknowledgements.Of(_socket);

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        if (bytes.IsEmpty)
            return 0;
        var sent = _socket.Send(bytes, SocketFlags.None, out var error);
        return error switch
        {
            SocketError.Success => sent,
            SocketError.WouldBlock or SocketError.NoBufferSpaceAvailable => 0,
            _ => throw new SocketException((int)error),
        };
    }

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[await _socket.SendAsync(bytes, SocketFlags.None).ConfigureAwait(false)..];
    }

    public ValueTask FinishAsync()
    {
        _socket.Shutdown(SocketShutdown.Send);
        return default;
    }

    public void Abort() => _socket.Dispose();
}

/// <summary>A stream, such as one that encrypts. Any write to it may wait, so all output goes through the queue.</summary>
/// <param name="stream">Only this object writes to it; another reads it.</param>
/// <param name="socket">The socket under it.</param>
/// <param name="finish">Ends the sending side.</param>
internal sealed class StreamWire(Stream stream, Socket socket, Func<ValueTask> finish) : IWire
{
    public long? AcknowledgedBytes => Acknowledgements.Of(socket);

    public int TryWrite(ReadOnlySpan<byte> bytes) => 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await stream.WriteAsync(bytes).ConfigureAwait(false);
        await stream.FlushAsync().ConfigureAwait(false);
    }

    public ValueTask FinishAsync() => finish();

    public void Abort() => socket.Dispose();
}

/// <summary>Asks the system what a client has acknowledged.</summary>
internal static class Acknowledgements
{
    // Linux: netinet/tcp.h, TCP_INFO, and struct tcp_info in linux/tcp.h, whose tcpi_bytes_acked came with 4.1. Older kernels answer with fewer bytes.
    private const int TcpLevel = 6;
    private const int TcpInfo = 11;
    private const int BytesAckedOffset = 120;

    /// <summary>The bytes that a TCP socket's peer has acknowledged; null for other sockets, for closed ones, and on other systems.</summary>
    public static long? Of(Socket? socket)
    {
        if (!OperatingSystem.IsLinux() || socket is not { AddressFamily: AddressFamily.InterNetwork or AddressFamily.InterNetworkV6 })
            return null;
        Span<byte> info = stackalloc byte[BytesAckedOffset + sizeof(long)];
        try
        {
            return socket.GetRawSocketOption(TcpLevel, TcpInfo, info) < info.Length ? null : MemoryMarshal.Read<long>(info[BytesAckedOffset..]);
        }
        catch (Exception failure) when (failure is SocketException or ObjectDisposedException)
        {
            return null;
        }
    }
}
