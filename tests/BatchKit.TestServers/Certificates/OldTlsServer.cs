using System.Net;
using System.Net.Sockets;

namespace BatchKit.TestServers.Certificates;

/// <summary>A server that answers each handshake with TLS 1.1, whatever the client offers. It shows what a client does then, although the installed libraries may no longer speak that version.</summary>
public sealed class OldTlsServer : IAsyncDisposable
{
    private const byte Alert = 21;
    private const int RecordHeaderBytes = 5;
    private const int PostgresRequestBytes = 8;

    // A server hello of TLS 1.1 (RFC 4346, section 7.4.1.3) with the cipher suite TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, in one record.
    private static readonly byte[] ServerHello = [22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2, .. new byte[32], 0, 0xC0, 0x14, 0];

    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly TaskCompletionSource<byte> _refused = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly Task _accepting;

    private OldTlsServer(bool isPostgres)
    {
        _listener.Start();
        _accepting = AcceptAsync(isPostgres);
    }

    /// <summary>The port on loopback.</summary>
    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>The alert with which the first client refused the version: 70 is <c>protocol_version</c> (RFC 8446, section 6).</summary>
    public Task<byte> Refused => _refused.Task;

    /// <summary>Starts one.</summary>
    /// <param name="isPostgres">True to agree to TLS first as PostgreSQL does.</param>
    public static OldTlsServer Start(bool isPostgres = false) => new(isPostgres);

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        await _accepting;
    }

    private async Task AcceptAsync(bool isPostgres)
    {
        while (true)
        {
            try
            {
                using var client = await _listener.AcceptTcpClientAsync();
                await AnswerAsync(client.GetStream(), isPostgres);
            }
            catch (IOException)
            {
                // The client went away.
            }
            catch (Exception failure) when (failure is SocketException or InvalidOperationException)
            {
                return;
            }
        }
    }

    private async Task AnswerAsync(NetworkStream stream, bool isPostgres)
    {
        if (isPostgres)
        {
            await stream.ReadExactlyAsync(new byte[PostgresRequestBytes]);
            await stream.WriteAsync("S"u8.ToArray());
        }

        await ReadRecordAsync(stream);
        await stream.WriteAsync(ServerHello);
        var (type, content) = await ReadRecordAsync(stream);
        if (type == Alert)
            _refused.TrySetResult(content[1]);
    }

    private static async Task<(byte Type, byte[] Content)> ReadRecordAsync(NetworkStream stream)
    {
        var header = new byte[RecordHeaderBytes];
        await stream.ReadExactlyAsync(header);
        var content = new byte[(header[3] << 8) | header[4]];
        await stream.ReadExactlyAsync(content);
        return (header[0], content);
    }
}
