using System.Diagnostics.Metrics;
using System.Threading.Channels;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using StackExchange.Redis;

namespace BatchKit.Redis;

/// <summary>Receives one node's frames from Redis pub/sub, in order, and passes their batches to the next transport.</summary>
/// <remarks>
/// What is published while it is not subscribed is lost. The client subscribes again after a lost connection. <c>ReceiveFromRedis</c> registers the receiver as a hosted service; without a host, start
/// and stop it yourself.
/// </remarks>
public sealed class RedisReceiver : IHostedService, IBlockingDisposable
{
    private const string NotSubscribed = "The server has not confirmed the subscription again.";
    private const int SoonAttempts = 50;

    // Frames may be large: so many that wait would fill the memory.
    private const int MaxWaitingBytes = 64 * 1024 * 1024;

    // The client needs a moment to subscribe again.
    private const int MissingChecks = 2;

    private static readonly TimeSpan SoonDelay = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan RetryDelay = TimeSpan.FromSeconds(1);

    private readonly RedisConnection _connection;
    private readonly bool _ownsConnection;
    private readonly RedisOptions _options;
    private readonly NodeNumber _node;
    private readonly BatchReceiver _receiver;
    private readonly FrameReceiver _frames;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly ConnectionReporter _reporter;
    private readonly FrameDrops _dropped;
    private readonly ReceiverLifetime _lifetime;
    private int _failures;
    private long _waitingBytes;

    // Read by the health check. Null while there is no subscription.
    private volatile Func<bool>? _isSubscribed;

    /// <summary>Creates a receiver; it does not connect yet.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="node">The node whose frames it receives, beside those for all nodes.</param>
    /// <param name="receiver">Decodes frames, drops repeats and passes batches on. Nothing else may use it.</param>
    /// <param name="connection">The application's connection, which is never closed; it is used when <see cref="RedisOptions.Configuration"/> is null.</param>
    /// <param name="timeProvider">The clock; the system's when null.</param>
    /// <param name="logger">The logger; null logs nothing.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The connection's <see cref="ConfigurationOptions.ChannelPrefix"/> has one of the characters <c>* ? [ \</c>, which are wildcards in what receivers subscribe to.</exception>
    public RedisReceiver(
        RedisOptions options, NodeNumber node, BatchReceiver receiver, IConnectionMultiplexer? connection = null,
        TimeProvider? timeProvider = null, ILogger<RedisReceiver>? logger = null, ConnectionMetrics? metrics = null)
        : this(options = RedisTransport.Check(options), node, receiver, new RedisConnection(options, connection, logger), timeProvider, logger, metrics, meterFactory: null) => _ownsConnection = true;

    internal RedisReceiver(
        RedisOptions options, NodeNumber node, BatchReceiver receiver, RedisConnection connection,
        TimeProvider? timeProvider, ILogger<RedisReceiver>? logger, ConnectionMetrics? metrics, IMeterFactory? meterFactory, string buffer = "")
    {
        ArgumentNullException.ThrowIfNull(node);
        ArgumentNullException.ThrowIfNull(receiver);
        receiver.ReadFor(node);
        (_options, _node, _receiver, _connection) = (options, node, receiver, connection);
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = GuardedLogger.Of(logger);
        _lifetime = new ReceiverLifetime(_timeProvider, _logger);
        _frames = new FrameReceiver(receiver, new LoggerOf<FrameReceiver>(_logger));
        _reporter = new ConnectionReporter(options.ConnectionChanged, "receiver", connection.Target, metrics, "redis", options.Prefix);
        _dropped = new FrameDrops("batchkit.redis.dropped", buffer, meterFactory, _logger.Faults);
    }

    /// <summary>How many received frames were dropped because more than <see cref="RedisOptions.MaxWaitingFrames"/>, or 64 MiB of them, waited.</summary>
    public long DroppedFrames => _dropped.Count;

    internal string? ObserverFault => _logger.Faults.Description ?? _connection.LoggerFault ?? _reporter.CallbackFault;

    /// <summary>Reads the counters of what was received.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Subscribes. Completes when that has succeeded or failed once: the receiver goes on trying. A second call starts nothing more.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="ObjectDisposedException">The receiver was disposed.</exception>
    public Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_lifetime.IsDisposed, this);
        return _lifetime.StartAsync(RunAsync, cancellationToken);
    }

    /// <summary>Unsubscribes, and ends the delivery under way: what waits is lost. A next hop that ignores it is waited for 2 seconds at most.</summary>
    /// <param name="cancellationToken">Has no effect.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_lifetime.IsDisposed)
            return;
        await _lifetime.StopAsync(_options.Prefix, TimeSpan.Zero, cancellationToken).ConfigureAwait(false);
        _reporter.Close();
        _lifetime.Fault = "The receiver has stopped.";
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        // A container disposes it once for each of its registrations.
        if (_lifetime.IsDisposed)
            return;
        try
        {
            await StopAsync(CancellationToken.None).ConfigureAwait(false);
        }
        finally
        {
            _lifetime.Dispose();
            _dropped.Dispose();
            if (_ownsConnection)
                await _connection.DisposeAsync().ConfigureAwait(false);
        }
    }

    /// <summary>Returns why nothing is received now; null when something would be. Asks over the connection that the frames come over.</summary>
    internal async Task<string?> FindFaultAsync(CancellationToken cancellationToken)
    {
        if (_lifetime.Fault is { } fault)
            return fault;
        var unanswered = await _connection.FindFaultAsync(static subscriber => subscriber.PingAsync(), cancellationToken).ConfigureAwait(false);
        return unanswered ?? (_isSubscribed?.Invoke() == false ? NotSubscribed : null);
    }

    private async Task RunAsync()
    {
        try
        {
            while (!_lifetime.Stopping.IsCancellationRequested)
                await ReceiveAsync(_lifetime.Stopping).ConfigureAwait(false);
        }
        catch (Exception) when (_lifetime.Stopping.IsCancellationRequested)
        {
            // It stops: what fails meanwhile concerns no one.
        }
        finally
        {
            _lifetime.Tried(_lifetime.Fault);
        }
    }

    private async Task ReceiveAsync(CancellationToken stopping)
    {
        var pattern = RedisChannels.PatternOf(_options.Prefix, _node.Value);
        ChannelMessageQueue? queue = null;
        try
        {
            await _connection.WatchAsync(_reporter).WaitAsync(stopping).ConfigureAwait(false);
            // The client would wait for its own limit, and the host's start for that.
            if (_connection.Fault is { } fault)
                throw new IOException(fault);
            var subscriber = (await _connection.GetAsync().ConfigureAwait(false)).GetSubscriber();
            queue = await SubscribeAsync(subscriber, pattern, stopping).ConfigureAwait(false);
            if (!IsSubscribed())
                throw new IOException("The server has not confirmed the subscription.");
            _failures = 0;
            _isSubscribed = IsSubscribed;
            _lifetime.Tried(fault: null);
            _lifetime.Log.Receiving($"{pattern}", _connection.Target);
            await DeliverAsync(queue, IsSubscribed, stopping).ConfigureAwait(false);

            bool IsSubscribed() => subscriber.SubscribedEndpoint(pattern) is not null;
        }
        catch (Exception exception) when (!stopping.IsCancellationRequested)
        {
            var reason = FailureText.MessageOf(exception);
            _lifetime.Fault = _connection.Fault ?? $"It could not subscribe at {_connection.Target}: {reason}";
            // The client has a second connection for subscriptions, which may be ready a little later.
            var isSoon = _connection.Fault is null && ++_failures < SoonAttempts;
            if (!isSoon)
            {
                _lifetime.Tried(_lifetime.Fault);
                _lifetime.Log.Ended($"{pattern}", _lifetime.Fault);
            }

            await Task.Delay(isSoon ? SoonDelay : RetryDelay, _timeProvider, stopping).ConfigureAwait(false);
        }
        finally
        {
            _isSubscribed = null;
            // Not awaited: the server may be down, and the queue has no reader from now on either way. Others of this connection may have the same subscription.
            _ = queue is null ? Task.CompletedTask : RemoveAsync(Task.CompletedTask, () => queue.UnsubscribeAsync(CommandFlags.FireAndForget));
        }
    }

    // The client keeps a queue whose subscription fails: it gets every later frame, and nothing can remove it. So a handler subscribes, which can be removed, and the queue joins what is subscribed.
    private static async Task<ChannelMessageQueue> SubscribeAsync(ISubscriber subscriber, RedisChannel pattern, CancellationToken stopping)
    {
        Action<RedisChannel, RedisValue> handler = static (_, _) => { };
        var subscribing = Task.CompletedTask;
        try
        {
            subscribing = subscriber.SubscribeAsync(pattern, handler);
            await subscribing.WaitAsync(stopping).ConfigureAwait(false);
            return subscriber.Subscribe(pattern, CommandFlags.FireAndForget);
        }
        finally
        {
            _ = RemoveAsync(subscribing, () => subscriber.UnsubscribeAsync(pattern, handler, CommandFlags.FireAndForget));
        }
    }

    // The client tells the server of the end of a subscription only when the server has confirmed it.
    private static async Task RemoveAsync(Task subscribing, Func<Task> unsubscribe)
    {
        await subscribing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        try
        {
            await unsubscribe().ConfigureAwait(false);
        }
        catch (Exception)
        {
            // The connection is disposed of.
        }
    }

    // The client's queue has no limit, so it is emptied while the next hop has a frame, for however long.
    private async Task DeliverAsync(ChannelMessageQueue queue, Func<bool> isSubscribed, CancellationToken stopping)
    {
        var waiting = new BoundedChannelOptions(_options.MaxWaitingFrames) { FullMode = BoundedChannelFullMode.DropOldest, SingleWriter = true };
        var frames = Channel.CreateBounded<byte[]>(waiting, oldest => Drop(oldest, $"{nameof(RedisOptions)}.{nameof(RedisOptions.MaxWaitingFrames)}", _options.MaxWaitingFrames));
        _waitingBytes = 0;
        using var ending = CancellationTokenSource.CreateLinkedTokenSource(stopping);
        var emptying = Task.WhenAll(EmptyAsync(queue, frames, ending.Token), WatchAsync(isSubscribed, frames.Writer, ending.Token));
        try
        {
            await foreach (var frame in frames.Reader.ReadAllAsync(stopping).ConfigureAwait(false))
            {
                Interlocked.Add(ref _waitingBytes, -frame.Length);
                await _lifetime.WatchAsync(_frames.ReceiveAsync(frame, stopping)).ConfigureAwait(false);
            }
        }
        finally
        {
            await ending.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await emptying.ConfigureAwait(false);
        }
    }

    private async Task EmptyAsync(ChannelMessageQueue queue, Channel<byte[]> frames, CancellationToken ending)
    {
        try
        {
            while (true)
            {
                byte[] frame = (await queue.ReadAsync(ending).ConfigureAwait(false)).Message!;
                // One frame may wait, whatever its size.
                while (Interlocked.Read(ref _waitingBytes) + frame.Length > MaxWaitingBytes && frames.Reader.TryRead(out var oldest))
                    Drop(oldest, "the queue's bytes", MaxWaitingBytes);
                Interlocked.Add(ref _waitingBytes, frame.Length);
                frames.Writer.TryWrite(frame);
            }
        }
        catch (Exception exception)
        {
            // Told to who delivers, behind the frames that came before it.
            frames.Writer.TryComplete(exception);
        }
    }

    // The client subscribes again after a lost connection, but tells no one when the server refuses that, and does not try it again.
    private async Task WatchAsync(Func<bool> isSubscribed, ChannelWriter<byte[]> frames, CancellationToken ending)
    {
        try
        {
            for (var missing = 0; missing < MissingChecks; missing = _connection.Look() is null && !isSubscribed() ? missing + 1 : 0)
                await Task.Delay(RetryDelay, _timeProvider, ending).ConfigureAwait(false);
            throw new IOException(NotSubscribed);
        }
        catch (Exception exception)
        {
            frames.TryComplete(exception);
        }
    }

    private void Drop(byte[] frame, string limitName, int limit)
    {
        Interlocked.Add(ref _waitingBytes, -frame.Length);
        _dropped.Add();
        _lifetime.Log.FramesDropped(limitName, limit);
    }
}
