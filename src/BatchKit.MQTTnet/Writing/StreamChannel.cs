using System.Buffers;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using MQTTnet.Channel;

namespace BatchKit.MQTTnet.Writing;

/// <summary>A client's connection at a server: a socket's stream, or TLS over it.</summary>
internal sealed class StreamChannel(Stream stream, Socket socket) : IMqttChannel
{
    public X509Certificate2 ClientCertificate { get; } = CertificateOf(stream)!;

    public EndPoint RemoteEndPoint { get; } = socket.RemoteEndPoint!;

    public EndPoint LocalEndPoint { get; } = socket.LocalEndPoint!;

    public bool IsSecureConnection => stream is SslStream;

    public Task ConnectAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task DisconnectAsync(CancellationToken cancellationToken)
    {
        Dispose();
        return Task.CompletedTask;
    }

    // MQTTnet understands a read of nothing, after a disposal, as the end.
    public async Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        try
        {
            return await stream.ReadAsync(buffer.AsMemory(offset, count), cancellationToken).ConfigureAwait(false);
        }
        catch (ObjectDisposedException)
        {
            return 0;
        }
    }

    public async Task WriteAsync(ReadOnlySequence<byte> buffer, bool isEndOfPacket, CancellationToken cancellationToken)
    {
        foreach (var segment in buffer)
            await stream.WriteAsync(segment, cancellationToken).ConfigureAwait(false);
    }

    public void Dispose() => stream.Dispose();

    private static X509Certificate2? CertificateOf(Stream stream) => stream is SslStream { RemoteCertificate: { } certificate }
        ? certificate as X509Certificate2 ?? X509CertificateLoader.LoadCertificate(certificate.Export(X509ContentType.Cert))
        : null;
}
