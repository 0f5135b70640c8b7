using System.Net.Sockets;

namespace BatchKit.Broadcast.Tcp;

/// <summary>What a TLS stream reads: opens the gate while it waits for the client, because nothing is decrypted meanwhile.</summary>
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
