using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Receiving;
using BatchKit.Transports;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Takes messages off an MQTT broker, in order, and hands them to the next transport in batches.</summary>
/// <remarks>
/// <para>
/// What one read from the connection brings is handed on together: consecutive messages of one topic are a batch for the handle of its name (<see cref="OutputHandle.Named"/>),
/// with content type and user properties in their headers. Response topic, correlation data, and whether a message was retained or sent again are left out. With
/// <see cref="MqttOptions.EnvelopePrefix"/> a message carries a whole frame of a BatchKit sender, for this node or for all.
/// </para>
/// <para>
/// A message is acknowledged to the broker when the next transport has it, or has refused it for good; until then the broker keeps it, and gives it again after a lost connection: at least
/// once, and once in envelope mode. Meanwhile nothing more is read, so a slow next hop holds up the broker, which may drop what is above its own limit (1,000 messages a client on Mosquitto,
/// <c>max_queued_messages</c>). It connects again by itself. <c>ReceiveFromMqtt</c> registers it as a hosted service; without a host start and stop it by hand.
/// </para>
/// </remarks>
public sealed class MqttReceiver : IHostedService, IAsyncDisposable
{
    private readonly MqttOptions _options;
    private readonly BatchReceiver _receiver;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly ReceivingSession _session;
    private readonly MqttLink _link;
    private readonly CancellationTokenSource _abandoning = new();

    private bool _isDisposed;
    private volatile string? _rest = "The receiver has not started.";

    /// <summary>Makes a receiver; it does not connect yet.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="node">This process's node: in envelope mode it takes the frames for it; else the batches' producer has its number.</param>
    /// <param name="receiver">
    /// Hands batches on, and drops repeats in envelope mode. It is this receiver's alone. Without <see cref="MqttOptions.EnvelopePrefix"/> its
    /// <see cref="BatchReceiverOptions.DropOwnGroups"/> must be false: it would drop everything.
    /// </param>
    /// <param name="timeProvider">The time; the system's when null.</param>
    /// <param name="logger">Where it logs; nowhere when null.</param>
    /// <exception cref="OptionsValidationException">A setting is outside its range, or there is nothing to subscribe to.</exception>
    public MqttReceiver(MqttOptions options, int node, BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger<MqttReceiver>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(receiver);
        ArgumentOutOfRangeException.ThrowIfNegative(node);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(node, OutputHandle.MaxNode);
        MqttOptionsValidator.ThrowIfInvalid(options);
        ReceivingRules.ThrowIfBroken(options);
        _options = options;
        _receiver = receiver;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = logger ?? NullLogger<MqttReceiver>.Instance;
        IArrivals arrivals = options.EnvelopePrefix is null ? new TopicArrivals(node) : new FrameArrivals(_logger);
        _session = new ReceivingSession(options, FindSubscriptions(options, node), arrivals, receiver, _timeProvider, _logger, _abandoning.Token);
        var clientId = $"{options.ClientId ?? $"batchkit-{Guid.NewGuid():N}"}-receiver";
        _link = new MqttLink(options, MqttLink.Receiver, clientId, options.SessionExpiry, _session, _timeProvider, _logger);
    }

    /// <summary>Why it receives nothing now, or not all that it should, for a person and without secrets; null while it receives.</summary>
    public string? Fault => _rest ?? _link.Fault ?? _session.Fault;

    /// <summary>What it has received, delivered and dropped, at any time and from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();

    /// <summary>Starts to receive. Completes after the first attempt to connect and subscribe, also when that failed: it goes on trying.</summary>
    /// <param name="cancellationToken">Ends the wait for the first attempt.</param>
    public async Task StartAsync(CancellationToken cancellationToken)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        var connecting = _link.StartAsync();
        _rest = null;
        await connecting.WaitAsync(cancellationToken).ConfigureAwait(false);
        await _session.Tried.WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Takes nothing more, lets the next hop have what is in hand, acknowledges that, and says goodbye, within <see cref="MqttOptions.StopTimeout"/>. The session stays with the broker.</summary>
    /// <remarks>It can't be started again: make another.</remarks>
    /// <param name="cancellationToken">Abandons what is in hand at once.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (_isDisposed)
            return;
        var ending = _link.DisposeAsync().AsTask();
        try
        {
            await ending.WaitAsync(_options.StopTimeout, _timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            if (_session.IsHandingOn)
                Log.Abandoned(_logger, _link.Target, _options.StopTimeout);
            await _abandoning.CancelAsync().ConfigureAwait(false);
            await ending.ConfigureAwait(false);
        }

        _session.Close();
        _rest = "The receiver has stopped.";
    }

    /// <summary>Stops it, if that has not been done.</summary>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        _abandoning.Dispose();
    }

    private static IReadOnlyList<MqttSubscription> FindSubscriptions(MqttOptions options, int node) => options.EnvelopePrefix is { } prefix
        ? [new MqttSubscription { Filter = EnvelopeTopics.Node(prefix, node) }, new MqttSubscription { Filter = EnvelopeTopics.All(prefix) }]
        : [.. options.Subscriptions];
}

/// <summary>The rules that hold for a receiver's options only: a transport does without what they ask for.</summary>
internal static class ReceivingRules
{
    public static void ThrowIfBroken(MqttOptions options)
    {
        if (options.EnvelopePrefix is null && options.Subscriptions.Count == 0)
            throw Broken($"A receiver needs {nameof(options.Subscriptions)}, or an {nameof(options.EnvelopePrefix)}.");
        if (options.Version == MqttVersion.V311 && options.ClientId is null && options.SessionExpiry > TimeSpan.Zero)
        {
            throw Broken($"MQTT 3.1.1 keeps a session for ever, and a drawn client id never comes back for it: set {nameof(options.ClientId)}, or {nameof(options.SessionExpiry)} "
                + "to zero for a receiver that may lose what arrives while it is not connected.");
        }
    }

    private static OptionsValidationException Broken(string text) => new(Options.DefaultName, typeof(MqttOptions), [text]);
}
