using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>A buffer whose output goes to clients that a test holds up.</summary>
internal sealed class LatestScene : IAsyncDisposable
{
    private readonly WireFormat _format;

    public LatestScene(WireFormat format, BroadcastOptions? options = null, bool isBehindBroker = false)
    {
        _format = format;
        Transport = new BroadcastTransport(options ?? new BroadcastOptions());
        var receiver = new BatchReceiver(Transport);
        Output = new OutputBuffer(isBehindBroker ? new FrameTransport((frame, cancellationToken) => receiver.ReceiveAsync(frame.Bytes.ToArray(), cancellationToken)) : Transport);
    }

    public BroadcastTransport Transport { get; }

    public OutputBuffer Output { get; }

    public FakeClient Client() => new(Transport, format: _format);

    /// <summary>A client that takes nothing until its wire is opened.</summary>
    public FakeClient Stuck()
    {
        var client = Client();
        client.Wire.Limit(0);
        return client;
    }

    public Task WriteAsync(FakeClient client, long key, string text) => WriteAsync(client.Handle, key, text);

    /// <summary>Writes it, and waits until it has left the buffer.</summary>
    public async Task WriteAsync(OutputHandle handle, long key, string text)
    {
        Output.WriteLatest(handle, key, text);
        await Output.FlushAsync(handle).WithinDeadline();
    }

    public async Task WritePlainAsync(FakeClient client, string text)
    {
        Output.Write(client.Handle, text);
        await Output.FlushAsync(client.Handle).WithinDeadline();
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
    }
}
