using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using StackExchange.Redis;

namespace BatchKit.Redis;

/// <summary>Sends batches over Redis pub/sub: one PUBLISH for each send and destination.</summary>
/// <remarks>
/// Pub/sub keeps nothing: a frame reaches the receivers that are subscribed at that moment, at most once, in order. While the server is down, and when a publish fails, the frame's batches are lost:
/// they count as refused, and who awaits them learns it. They are not sent again, so that an outage never holds up the sender. Thread-safe.
/// </remarks>
public sealed class RedisTransport : IBatchTransport, IAsyncDisposable, IDisposable
{
    // The server ends the connection at each frame above its limit, and other frames are lost with it. Later the limit may be higher.
    private static readonly TimeSpan TooLargeTime = TimeSpan.FromMinutes(1);

    private readonly RedisConnection _connection;
    private readonly bool _ownsConnection;
    private readonly TimeProvider _timeProvider;
    private readonly ConnectionReporter _reporter;
    private readonly string _prefix;
    private readonly FrameTransport _frames;
    private Task? _watching;
    private volatile RefusedSize? _tooLarge;

    /// <summary>Creates a transport; it connects at its first send.</summary>
    /// <param name="options">The settings; the defaults when null.</param>
    /// <param name="connection">The application's connection, which is never closed; it is used when <see cref="RedisOptions.Configuration"/> is null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="signer">Signs the frames; null for none.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The connection's <see cref="ConfigurationOptions.ChannelPrefix"/> has one of the characters <c>* ? [ \</c>, which are wildcards in what receivers subscribe to.</exception>
    public RedisTransport(
        RedisOptions? options = null, IConnectionMultiplexer? connection = null, TimeProvider? timeProvider = null,
        ILogger<RedisTransport>? logger = null, FrameSigner? signer = null, ConnectionMetrics? metrics = null)
        : this(options = Check(options), new RedisConnection(options, connection, logger), timeProvider, signer, metrics) => _ownsConnection = true;

    internal RedisTransport(RedisOptions options, RedisConnection connection, TimeProvider? timeProvider, FrameSigner? signer, ConnectionMetrics? metrics)
    {
        _timeProvider = timeProvider ?? TimeProvider.System;
        _connection = connection;
        _prefix = options.Prefix;
        _reporter = new ConnectionReporter(options.ConnectionChanged, "sender", connection.Target, metrics, "redis");
        _frames = new FrameTransport(PublishAsync, new FrameTransportOptions
        {
            BusName = connection.Target,
            MaxFrameBytes = options.MaxFrameBytes,
            DestinationNode = options.DestinationNode,
            Signer = signer,
            PublishesWithoutBlocking = true,
        });
    }

    /// <inheritdoc/>
    public bool SendsWithoutBlocking => true;

    /// <inheritdoc/>
    public int MaxMessageBytes => _frames.MaxMessageBytes;

    /// <inheritdoc/>
    public int MaxBatchBytes => _frames.MaxBatchBytes;

    /// <inheritdoc/>
    public string LimitingSetting => $"{nameof(RedisOptions)}.{nameof(RedisOptions.MaxFrameBytes)}";

    internal string? ObserverFault => _connection.LoggerFault ?? _reporter.CallbackFault;

    /// <summary>Publishes the batches, and completes when the server has answered each PUBLISH.</summary>
    /// <inheritdoc cref="IBatchTransport.SendAsync"/>
    /// <exception cref="ObjectDisposedException">The transport is disposed.</exception>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => _frames.SendAsync(batches, cancellationToken);

    /// <summary>Makes later sends fail.</summary>
    public void Dispose() => _frames.Dispose();

    /// <summary>Makes later sends fail, and closes its connection; the application's stays open.</summary>
    public ValueTask DisposeAsync()
    {
        _frames.Dispose();
        return _ownsConnection ? _connection.DisposeAsync() : default;
    }

    internal static RedisOptions Check(RedisOptions? options)
    {
        options ??= new RedisOptions();
        OptionsRules.ThrowIfInvalid(new RedisOptionsValidator(), options);
        return options.Copy();
    }

    /// <summary>Connects. The host calls it when it starts; otherwise the first send does.</summary>
    internal Task StartAsync() => _watching is null or { IsFaulted: true } ? _watching = _connection.WatchAsync(_reporter) : _watching;

    /// <summary>Returns why nothing can be sent now; null when it can. Publishes to no one to find out: a server may answer other commands and hold back what is published.</summary>
    internal Task<string?> FindFaultAsync(CancellationToken cancellationToken) =>
        _connection.FindFaultAsync(subscriber => subscriber.PublishAsync(RedisChannels.ProbeOf(_prefix), RedisValue.EmptyString), cancellationToken);

    private async ValueTask PublishAsync(OutgoingFrame frame, CancellationToken cancellationToken)
    {
        var redis = await ConnectAsync(cancellationToken).ConfigureAwait(false);
        if (_connection.Look() is not null)
            throw new FrameRefusedException($"{_connection.Target} is not connected, and pub/sub keeps nothing.");
        if (_tooLarge is { } known && frame.Bytes.Length >= known.Bytes && _timeProvider.GetElapsedTime(known.At) < TooLargeTime)
            throw TooLarge(frame);
        long receivers;
        try
        {
            // A copy: after a failure the client may still hold the memory.
            receivers = await redis.GetSubscriber().PublishAsync(RedisChannels.Of(_prefix, frame.Destination), frame.Bytes.ToArray()).ConfigureAwait(false);
            _connection.Answered();
        }
        catch (RedisServerException exception) when (FailureText.MessageOf(exception).Contains("invalid bulk length", StringComparison.OrdinalIgnoreCase))
        {
            _tooLarge = new RefusedSize(frame.Bytes.Length, _timeProvider.GetTimestamp());
            throw TooLarge(frame, exception);
        }
        // When the client gives the connection up, it cancels what waits for an answer, or fails it with an exception of any type.
        catch (Exception exception)
        {
            if (exception is TimeoutException)
                _connection.Unanswered("A frame was not answered in time (the setting asyncTimeout of the connection).");
            throw new FrameRefusedException($"{_connection.Target} did not accept the frame: {FailureText.MessageOf(exception)}", exception);
        }

        if (receivers == 0 && !frame.Destination.IsAll && HasOneServer(redis))
            throw new FrameRefusedException($"No receiver of {frame.Destination} is subscribed at {_connection.Target}.");
    }

    private FrameRefusedException TooLarge(OutgoingFrame frame, Exception? cause = null) =>
        new($"{_connection.Target} takes no frame of {frame.Bytes.Length} bytes. Lower {LimitingSetting}, or raise the server's proto-max-bulk-len.", cause);

    private async ValueTask<IConnectionMultiplexer> ConnectAsync(CancellationToken cancellationToken)
    {
        try
        {
            await StartAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
            return await _connection.GetAsync().ConfigureAwait(false);
        }
        catch (RedisException exception)
        {
            throw new FrameRefusedException($"{_connection.Target} can't be reached: {FailureText.MessageOf(exception)}", exception);
        }
    }

    // A server counts its own receivers only. The others of a cluster have more, and so have the replicas of a primary: after a failover, the servers that receivers stay connected to.
    private static bool HasOneServer(IConnectionMultiplexer redis) => redis.GetServers() is [{ ServerType: not ServerType.Cluster }];

    /// <summary>The size of a frame that the server did not take, and when.</summary>
    private sealed record RefusedSize(int Bytes, long At);
}
