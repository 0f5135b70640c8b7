using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>An established connection: its CONNECT was accepted.</summary>
internal sealed class MqttConnection : IAsyncDisposable
{
    // A broker that read the goodbye closes at once; one that does not is not waited for.
    private static readonly TimeSpan MaxWaitForEnd = TimeSpan.FromSeconds(1);

    private readonly BrokerStream _stream;
    private readonly ReadBuffer _input;
    private readonly MqttOptions _options;
    private readonly uint? _lastSessionExpiry;
    private readonly TimeProvider _timeProvider;
    private PacketOutput? _output;
    private bool _isClosed;

    /// <summary>Takes over a stream on which the CONNACK was read.</summary>
    /// <param name="stream">The stream; this connection closes it.</param>
    /// <param name="input">What was read behind the CONNACK.</param>
    /// <param name="limits">The CONNACK.</param>
    /// <param name="options">The settings.</param>
    /// <param name="target">The broker for a person.</param>
    /// <param name="lastSessionExpiry">What the goodbye sets the session expiry to; null leaves it.</param>
    /// <param name="timeProvider">The time.</param>
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

    /// <summary>The broker for a person, without secrets.</summary>
    public string Target { get; }

    /// <summary>How it ended; null before.</summary>
    public ConnectionEnd? End { get; private set; }

    /// <summary>Starts writing; once.</summary>
    /// <param name="source">What has packets to write beside those that are appended; may be null.</param>
    public PacketOutput Open(IPacketSource? source) => _output = new PacketOutput(_stream.Stream, source, _timeProvider);

    /// <summary>Reads packets, and keeps the connection alive, until it ends, whoever ends it. When it completes, nothing of the handler or source is called any more.</summary>
    /// <param name="handler">Gets the packets. Its token is cancelled when the connection ends, whatever the cause; what it then still waits for delays the end.</param>
    /// <param name="cancellationToken">Says goodbye and ends it.</param>
    /// <returns>Why it ended, for a person; a sentence.</returns>
    public async Task<string> RunAsync(IPacketHandler handler, CancellationToken cancellationToken)
    {
        var output = _output ?? Open(source: null);
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        var keepAlive = new KeepAlive(FindKeepAlive(), output, _timeProvider);
        using var reader = new ConnectionReader(_stream, _input, Version, _options.MaxPacketBytes, _options.QuickAcknowledge, keepAlive);
        var reading = reader.RunAsync(handler, ending.Token);
        Task rest = reading;
        var watching = keepAlive.WatchAsync(ending.Token);
        try
        {
            await Task.WhenAny(reading, watching, output.Failed).ConfigureAwait(false);
            var end = await FindEndAsync(reading, watching, output.Failed, cancellationToken).ConfigureAwait(false);
            End = end;
            await ending.CancelAsync().ConfigureAwait(false);
            if (end.Goodbye is { } code)
                rest = await SayGoodbyeAsync(reader, reading, output, code).ConfigureAwait(false);
            return end.Reason;
        }
        finally
        {
            await ending.CancelAsync().ConfigureAwait(false);
            await CloseAsync(output, rest, watching).ConfigureAwait(false);
        }
    }

    public async ValueTask DisposeAsync()
    {
        if (!_isClosed)
            await CloseAsync(_output, Task.CompletedTask, Task.CompletedTask).ConfigureAwait(false);
    }

    private static async Task<ConnectionEnd> FindEndAsync(Task<ConnectionEnd> reading, Task<string> watching, Task failed, CancellationToken cancellationToken)
    {
        if (cancellationToken.IsCancellationRequested)
            return new ConnectionEnd("It was stopped.", Goodbye: MqttReasonCode.Success);
        if (watching.IsCompletedSuccessfully)
            return new ConnectionEnd(await watching.ConfigureAwait(false));
        try
        {
            if (!reading.IsCompleted)
                await failed.ConfigureAwait(false);
            return await reading.ConfigureAwait(false);
        }
        catch (Exception exception) when (StreamFaults.Covers(exception))
        {
            return new ConnectionEnd($"The connection broke: {StreamFaults.Describe(exception)}");
        }
    }

    private static async Task ReadToEndAsync(ConnectionReader reader, Task reading)
    {
        await reading.ConfigureAwait(false);
        await reader.DiscardAsync().ConfigureAwait(false);
    }

    // Zero at the broker stands for no limit; then ours still finds a dead connection.
    private TimeSpan FindKeepAlive() => Limits.ServerKeepAlive is { } seconds and > 0 ? TimeSpan.FromSeconds(seconds) : _options.KeepAlive;

    // Returns what still reads, to be awaited when the stream is closed.
    private async Task<Task> SayGoodbyeAsync(ConnectionReader reader, Task reading, PacketOutput output, MqttReasonCode code)
    {
        await reader.StopHandlingAsync().ConfigureAwait(false);
        var rest = reading;
        using (var limit = new CancellationTokenSource(_options.StopTimeout, _timeProvider))
        {
            try
            {
                // 3.1.1's has no reason code and would say that all was well.
                var packet = Version == MqttVersion.V311 && code != MqttReasonCode.Success ? [] : DisconnectPacket.Write(Version, code, _lastSessionExpiry);
                await output.CloseAsync(packet).WaitAsync(limit.Token).ConfigureAwait(false);
                await _stream.EndWritingAsync(limit.Token).ConfigureAwait(false);
                rest = ReadToEndAsync(reader, reading);
                await rest.WaitAsync(MaxWaitForEnd, _timeProvider, limit.Token).ConfigureAwait(false);
            }
            catch (Exception exception) when (StreamFaults.Covers(exception) || exception is OperationCanceledException or TimeoutException)
            {
                // It is closed either way.
            }
        }

        return rest;
    }

    // The output first, so that it takes nothing for a stream that is gone; its write under way ends with the stream.
    private async Task CloseAsync(PacketOutput? output, Task reading, Task watching)
    {
        _isClosed = true;
        var closing = output?.CloseAsync() ?? Task.CompletedTask;
        _stream.Dispose();
        await Task.WhenAll(closing, reading, watching).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        output?.Dispose();
        _input.Dispose();
    }
}

/// <summary>How a connection ended.</summary>
/// <param name="Reason">Why, for a person; a sentence.</param>
/// <param name="Goodbye">What the broker is told; null when there is nobody to tell.</param>
/// <param name="Notice">What the broker said in its DISCONNECT; null when it said nothing.</param>
/// <param name="IsUnexplained">True when the broker closed it in good order and said nothing: so Mosquitto ends one whose session was taken over.</param>
internal sealed record ConnectionEnd(string Reason, MqttReasonCode? Goodbye = null, MqttReasonCode? Notice = null, bool IsUnexplained = false);
