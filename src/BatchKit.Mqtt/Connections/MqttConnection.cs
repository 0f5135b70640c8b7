using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>A connection whose CONNECT the broker has accepted.</summary>
internal sealed class MqttConnection : IAsyncDisposable
{
    // A broker that has read the DISCONNECT closes immediately, so waiting longer is pointless.
    private static readonly TimeSpan MaxWaitForEnd = TimeSpan.FromSeconds(1);

    private readonly BrokerStream _stream;
    private readonly ReadBuffer _input;
    private readonly MqttOptions _options;
    private readonly uint? _lastSessionExpiry;
    private readonly TimeProvider _timeProvider;
    private readonly TaskCompletionSource<string> _abandoned = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private PacketOutput? _output;
    private KeepAlive? _keepAlive;
    private bool _isClosed;

    /// <summary>Takes ownership of a stream on which the CONNACK was read.</summary>
    /// <param name="stream">The stream; this connection closes it.</param>
    /// <param name="input">The bytes that were read after the CONNACK.</param>
    /// <param name="limits">The CONNACK.</param>
    /// <param name="options">The settings.</param>
    /// <param name="target">A human-readable form of the broker's address.</param>
    /// <param name="lastSessionExpiry">The session expiry to set in the DISCONNECT of a stop; null keeps CONNECT's.</param>
    /// <param name="timeProvider">The source of time.</param>
    public MqttConnection(
        BrokerStream stream, ReadBuffer input, ConnackPacket limits, MqttOptions options, string target, uint? lastSessionExpiry, TimeProvider timeProvider)
    {
        _stream = stream;
        _input = input;
        _options = options;
        _lastSessionExpiry = lastSessionExpiry;
        _timeProvider = timeProvider;
        Limits = limits;
        Target = target;
    }

    /// <summary>The broker's limits.</summary>
    public ConnackPacket Limits { get; }

    public MqttVersion Version => _options.Version;

    /// <summary>After how much silence the broker is asked whether it is there. Zero from the broker means no keep-alive; then the client's own setting still detects a dead connection.</summary>
    public TimeSpan KeepAlive => Limits.ServerKeepAlive is { } seconds and > 0 ? TimeSpan.FromSeconds(seconds) : _options.KeepAlive;

    /// <summary>A human-readable form of the broker's address, without secrets.</summary>
    public string Target { get; }

    /// <summary>How it ended; null until then.</summary>
    public ConnectionEnd? End { get; private set; }

    /// <summary>How long the broker has been silent while this connection was reading. Zero while the handler is busy, because nothing is read then.</summary>
    public TimeSpan SilentFor => _keepAlive?.SilentFor ?? TimeSpan.Zero;

    /// <summary>Starts writing. Call it once.</summary>
    /// <param name="source">Provides packets to write besides the appended ones; null for none.</param>
    public PacketOutput Open(IPacketSource? source) => _output = new PacketOutput(_stream.Stream, source, _timeProvider);

    /// <summary>Reads packets and keeps the connection alive until it ends for any reason. After the task has completed, neither the handler nor the source is called.</summary>
    /// <param name="handler">Gets the packets. Its token is cancelled when the connection ends; the end waits for the handler to return.</param>
    /// <param name="cancellationToken">Stops the client: sends a DISCONNECT, which may end the session, and ends the connection.</param>
    /// <returns>A human-readable sentence: why it ended.</returns>
    public async Task<string> RunAsync(IPacketHandler handler, CancellationToken cancellationToken)
    {
        var output = _output ?? Open(source: null);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        var keepAlive = _keepAlive = new KeepAlive(KeepAlive, output, _timeProvider);
        using var reader = new ConnectionReader(_stream, _input, Version, _options.MaxPacketBytes, _options.QuickAcknowledge, keepAlive);
        var reading = _stream.Blocks
            ? OwnThread.RunAsync(() => reader.RunAsync(handler, ending.Token))
            : reader.RunAsync(handler, ending.Token);
        Task rest = reading;
        var watching = keepAlive.WatchAsync(ending.Token);
        try
        {
            await Task.WhenAny(reading, watching, output.Failed, _abandoned.Task).ConfigureAwait(false);
            var end = await FindEndAsync(reading, watching, output.Failed, cancellationToken).ConfigureAwait(false);
            End = end;
            await ending.CancelAsync().ConfigureAwait(false);
            // Only a stop may end the session: after every other end a later connection resumes it, and the broker has messages for it.
            if (end.DisconnectCode is { } code)
                rest = await DisconnectAsync(reader, reading, output, code, cancellationToken.IsCancellationRequested ? _lastSessionExpiry : null).ConfigureAwait(false);
            return end.Reason;
        }
        finally
        {
            await ending.CancelAsync().ConfigureAwait(false);
            await CloseAsync(output, rest, watching).ConfigureAwait(false);
        }
    }

    /// <summary>Sends a DISCONNECT and waits until the broker has closed, in the place of <see cref="RunAsync"/>.</summary>
    /// <remarks>MQTTnet's server forgets the session by its client id, then closes: whoever connects before that gets the session, and loses it.</remarks>
    public Task EndAsync() => RunAsync(new UnusedPackets(), new CancellationToken(canceled: true));

    /// <summary>Sends a DISCONNECT that keeps the session, and ends the connection.</summary>
    /// <param name="reason">A human-readable sentence: why it ends.</param>
    public void Abandon(string reason) => _abandoned.TrySetResult(reason);

    /// <summary>Sends such a DISCONNECT and waits until the broker has closed, in the place of <see cref="RunAsync"/>. After a close without one, the broker would publish the will.</summary>
    public Task<string> AbandonAsync(string reason, CancellationToken cancellationToken)
    {
        Abandon(reason);
        return RunAsync(new UnusedPackets(), cancellationToken);
    }

    public async ValueTask DisposeAsync()
    {
        if (!_isClosed)
            await CloseAsync(_output, Task.CompletedTask, Task.CompletedTask).ConfigureAwait(false);
    }

    private async Task<ConnectionEnd> FindEndAsync(Task<ConnectionEnd> reading, Task<string> watching, Task failed, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return new ConnectionEnd("It was stopped.", DisconnectCode: MqttReasonCode.Success);
        if (watching.IsCompletedSuccessfully)
            return new ConnectionEnd(await watching.ConfigureAwait(false));
        if (_abandoned.Task.IsCompleted)
            return new ConnectionEnd(await _abandoned.Task.ConfigureAwait(false), DisconnectCode: MqttReasonCode.Success);
        try
        {
            // A broker that closes the connection makes the next write fail, and its DISCONNECT may still be unread.
            if (!reading.IsCompleted)
                await Task.WhenAny(reading, Task.Delay(MaxWaitForEnd, _timeProvider, cancellationToken)).ConfigureAwait(false);
            if (!reading.IsCompletedSuccessfully && failed.IsCompleted)
                await failed.ConfigureAwait(false);
            return await reading.ConfigureAwait(false);
        }
        catch (Exception exception) when (StreamFaults.Covers(exception))
        {
            return new ConnectionEnd($"The connection broke: {StreamFaults.Describe(exception)}", IsBroken: true);
        }
    }

    private static async Task ReadToEndAsync(ConnectionReader reader, Task reading)
    {
        await reading.ConfigureAwait(false);
        await reader.DiscardAsync().ConfigureAwait(false);
    }

    // Returns the task that still reads; it is awaited after the stream is closed.
    private async Task<Task> DisconnectAsync(ConnectionReader reader, Task reading, PacketOutput output, MqttReasonCode code, uint? sessionExpiry)
    {
        await reader.StopHandlingAsync().ConfigureAwait(false);
        var rest = reading;
        using (var limit = new CancellationTokenSource(_options.StopTimeout, _timeProvider))
        {
            try
            {
                // A DISCONNECT of 3.1.1 has no reason code and would mean a normal end.
                var packet = Version == MqttVersion.V311 && code != MqttReasonCode.Success ? [] : DisconnectPacket.Write(Version, code, sessionExpiry);
                await output.CloseAsync(packet).WaitAsync(limit.Token).ConfigureAwait(false);
                await _stream.EndWritingAsync(limit.Token).ConfigureAwait(false);
                // Elsewhere, because a stream that blocks would hold up the limit.
                rest = Task.Run(() => ReadToEndAsync(reader, reading), CancellationToken.None);
                await rest.WaitAsync(MaxWaitForEnd, _timeProvider, limit.Token).ConfigureAwait(false);
            }
            catch (Exception exception) when (StreamFaults.Covers(exception) || exception is OperationCanceledException or TimeoutException)
            {
                // The connection is closed either way.
            }
        }

        return rest;
    }

    // Closes the output first, so that it accepts nothing for a closed stream; a write under way ends with the stream.
    private async Task CloseAsync(PacketOutput? output, Task reading, Task watching)
    {
        _isClosed = true;
        var closing = output?.CloseAsync() ?? Task.CompletedTask;
        _stream.Dispose();
        await Task.WhenAll(closing, reading, watching).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        output?.Dispose();
        _input.Dispose();
    }

    private sealed class UnusedPackets : IPacketHandler
    {
        public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
        {
        }

        public ValueTask FinishReadAsync(CancellationToken cancellationToken) => default;
    }
}

/// <summary>How a connection ended.</summary>
/// <param name="Reason">A human-readable sentence: why it ended.</param>
/// <param name="DisconnectCode">The reason code for the broker; null when the broker can't be told.</param>
/// <param name="Notice">The reason code of the broker's DISCONNECT; null when it sent none.</param>
/// <param name="IsUnexplained">True when the broker closed the connection normally without a DISCONNECT, as Mosquitto does after the session was taken over.</param>
/// <param name="IsBroken">True when the stream broke: the connection was reset, or could not be written to.</param>
internal sealed record ConnectionEnd(string Reason, MqttReasonCode? DisconnectCode = null, MqttReasonCode? Notice = null, bool IsUnexplained = false, bool IsBroken = false)
{
    /// <summary>True when a message that was sent may be why it ended: the peer ended it and named no reason, or answered with a packet that breaks the protocol.</summary>
    public bool IsSuspicious => IsUnexplained || IsBroken || DisconnectCode >= MqttReasonCode.UnspecifiedError;
}
