using BatchKit.Broadcast.Receiving;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>The stream under the framework's WebSocket. It reads from the server; the frames that the framework writes go through the connection's queue, so that all bytes have one order.</summary>
/// <param name="server">The server's stream of the upgraded connection. The server owns it and ends it.</param>
internal sealed class UpgradedStream(Stream server) : ConnectionStream
{
    private const byte OpcodeBits = 0x0F;

    private ClientConnection? _connection;
    private InboundDelivery? _delivery;
    private OutputPath? _path;
    private PongWatch? _pongWatch;

    // Whether the last read had to wait for the client, and how much it got.
    private bool _hasWaited;
    private int _readBytes;

    /// <summary>The server's own stream.</summary>
    public Stream Server => server;

    /// <summary>True when the client's bytes pass through this stream, which notes them. On a server in memory only its messages are seen.</summary>
    public bool SeesInput => server is not MessageStream;

    /// <summary>True once the framework has ended the WebSocket because the client broke the protocol.</summary>
    public bool HasClosed { get; private set; }

    /// <summary>Attaches the connection. Nothing is read or written before.</summary>
    public void Attach(ClientConnection connection, InboundDelivery delivery, OutputPath path)
    {
        _connection = connection;
        _delivery = delivery;
        _path = path;
        _pongWatch = path.IsOpen ? new PongWatch() : null;
    }

    /// <summary>Reads when the client may be read. It is delayed here, where all its bytes pass: the framework answers pings by itself.</summary>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        var allowed = _delivery!.WhenMayReadAsync(_hasWaited, _readBytes);
        return allowed.IsCompletedSuccessfully ? ReadNowAsync(buffer, cancellationToken) : ReadLaterAsync(allowed, buffer, cancellationToken);
    }

    /// <summary>Takes one whole frame: the framework writes each frame in one call.</summary>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        Write(buffer.Span);
        return default;
    }

    public override void Write(ReadOnlySpan<byte> buffer)
    {
        var opcode = buffer[0] & OpcodeBits;
        if (opcode == WebSocketEncoder.PongOpcode)
        {
            _connection!.SendPong(buffer);
            return;
        }

        if (opcode != WebSocketEncoder.CloseOpcode)
        {
            _connection!.SendControl(buffer);
            return;
        }

        HasClosed = true;
        _path!.ChooseStream("the client broke the protocol first");
        _connection!.Output.Complete(buffer);
    }

    public override Task FlushAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        Write(buffer.AsSpan(offset, count));
        return Task.CompletedTask;
    }

    public override void Write(byte[] buffer, int offset, int count) => Write(buffer.AsSpan(offset, count));

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    private async ValueTask<int> ReadLaterAsync(ValueTask allowed, Memory<byte> buffer, CancellationToken cancellationToken)
    {
        await allowed.ConfigureAwait(false);
        return await ReadNowAsync(buffer, cancellationToken).ConfigureAwait(false);
    }

    private ValueTask<int> ReadNowAsync(Memory<byte> buffer, CancellationToken cancellationToken)
    {
        var reading = server.ReadAsync(buffer, cancellationToken);
        _hasWaited = !reading.IsCompletedSuccessfully;

        // The framework waits for a silent client in a read without a buffer, which brings no bytes to note.
        if (buffer.IsEmpty)
            return reading;
        return _hasWaited ? ReadSlowAsync(reading, buffer) : ValueTask.FromResult(Note(buffer.Span[..reading.Result]));
    }

    private async ValueTask<int> ReadSlowAsync(ValueTask<int> reading, Memory<byte> buffer)
    {
        var read = await reading.ConfigureAwait(false);
        return Note(buffer.Span[..read]);
    }

    private int Note(ReadOnlySpan<byte> received)
    {
        _readBytes = received.Length;
        if (received.IsEmpty)
            return 0;
        _delivery!.TryNote(received.Length);
        if (_pongWatch?.HasPong(received) is true)
        {
            _pongWatch = null;
            _path!.ChooseDirect();
        }

        return received.Length;
    }
}

/// <summary>Wraps the server's upgrade feature, so that the framework's WebSocket reads and writes through an <see cref="UpgradedStream"/>.</summary>
internal sealed class UpgradeInterception(IHttpUpgradeFeature? upgrade, IHttpExtendedConnectFeature? connect) : IHttpUpgradeFeature, IHttpExtendedConnectFeature
{
    public bool IsUpgradableRequest => upgrade!.IsUpgradableRequest;

    public bool IsExtendedConnect => connect!.IsExtendedConnect;

    public string? Protocol => connect!.Protocol;

    /// <summary>The server's own feature; null when it has none.</summary>
    public IHttpUpgradeFeature? Upgrade => upgrade;

    /// <summary>The connection's bytes, once it is upgraded.</summary>
    public UpgradedStream? Stream { get; private set; }

    /// <summary>The interception of a request's upgrade; null when it can't be upgraded.</summary>
    public static UpgradeInterception? Of(HttpContext context) =>
        context.Features.Get<IHttpUpgradeFeature>() as UpgradeInterception ?? context.Features.Get<IHttpExtendedConnectFeature>() as UpgradeInterception;

    /// <summary>Intercepts a request's upgrade.</summary>
    public static void Attach(HttpContext context)
    {
        var (upgrade, connect) = (context.Features.Get<IHttpUpgradeFeature>(), context.Features.Get<IHttpExtendedConnectFeature>());
        var interception = new UpgradeInterception(upgrade, connect);
        if (upgrade is not null)
            context.Features.Set<IHttpUpgradeFeature>(interception);
        if (connect is not null)
            context.Features.Set<IHttpExtendedConnectFeature>(interception);

        // WebSocket middleware of the application would bypass this one. Without its feature, the branch's own middleware sets another.
        if (upgrade is { IsUpgradableRequest: true } || connect is { IsExtendedConnect: true })
            context.Features.Set<IHttpWebSocketFeature>(null);
    }

    public async Task<Stream> UpgradeAsync() => Stream = new UpgradedStream(await upgrade!.UpgradeAsync().ConfigureAwait(false));

    public async ValueTask<Stream> AcceptAsync() => Stream = new UpgradedStream(await connect!.AcceptAsync().ConfigureAwait(false));
}
