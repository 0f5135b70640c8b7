using System.Buffers;
using System.Net;
using System.Security.Cryptography.X509Certificates;
using MQTTnet.Channel;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>A channel that keeps what is written to it, write by write; over another one, or over nothing.</summary>
internal sealed class RecordingChannel(IMqttChannel? inner = null) : IMqttChannel
{
    private readonly Lock _lock = new();
    private readonly List<byte[]> _writes = [];

    /// <summary>Set: writes wait for it.</summary>
    public TaskCompletionSource? Gate { get; set; }

    /// <summary>Set: writes fail with it.</summary>
    public Exception? Failure { get; set; }

    public bool IsDisposed { get; private set; }

    public bool IsDisconnected { get; private set; }

    public IReadOnlyList<byte[]> Writes
    {
        get
        {
            lock (_lock)
                return [.. _writes];
        }
    }

    public byte[] Bytes => [.. Writes.SelectMany(write => write)];

    public X509Certificate2 ClientCertificate => inner?.ClientCertificate!;

    public EndPoint RemoteEndPoint => inner?.RemoteEndPoint!;

    public EndPoint LocalEndPoint => null!;

    public bool IsSecureConnection => inner?.IsSecureConnection ?? false;

    public Task ConnectAsync(CancellationToken cancellationToken) => inner?.ConnectAsync(cancellationToken) ?? Task.CompletedTask;

    public Task DisconnectAsync(CancellationToken cancellationToken)
    {
        IsDisconnected = true;
        return inner?.DisconnectAsync(cancellationToken) ?? Task.CompletedTask;
    }

    public Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) => inner?.ReadAsync(buffer, offset, count, cancellationToken) ?? Task.FromResult(0);

    public async Task WriteAsync(ReadOnlySequence<byte> buffer, bool isEndOfPacket, CancellationToken cancellationToken)
    {
        if (Failure is { } failure)
            throw failure;
        lock (_lock)
            _writes.Add(buffer.ToArray());
        if (Gate is { } gate)
            await gate.Task.WaitAsync(cancellationToken);
        if (inner is not null)
            await inner.WriteAsync(buffer, isEndOfPacket, cancellationToken);
    }

    public void Dispose()
    {
        IsDisposed = true;
        Gate?.TrySetException(new ObjectDisposedException(nameof(RecordingChannel)));
        inner?.Dispose();
    }
}
