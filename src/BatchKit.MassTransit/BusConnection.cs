using System.Runtime.ExceptionServices;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.MassTransit;

/// <summary>A bus that carries frames: the application's or the buffer's own.</summary>
internal class BusConnection(IBus bus, MassTransitOptions options, ConnectionAge age)
{
    public IBus Bus { get; } = bus;

    public MassTransitOptions Options { get; } = options;

    public BusTopology Topology { get; init; } = BusTopology.For(bus, options);

    /// <summary>What the bus connects to, in human-readable form.</summary>
    public string Target { get; } = options.RabbitMq is { } rabbit ? $"RabbitMQ at {rabbit.First.Host}:{rabbit.First.Port}" : "the bus";

    /// <summary>The time since the bus connected or failed, as far as MassTransit reports it.</summary>
    public ConnectionAge Age { get; } = age;

    /// <summary>The instruments of the bus's connection; null for none.</summary>
    public ConnectionMetrics? Metrics { get; init; }

    /// <summary>The connection of the buffer's own bus over RabbitMQ; null on another bus.</summary>
    public BusLink? Link { get; init; }

    /// <summary>True once endpoints may be connected. The application's bus is then started and healthy.</summary>
    public virtual bool IsStarted => Link is not null || Bus is not IBusControl bus || bus.CheckHealth().Status != BusHealthStatus.Unhealthy;

    /// <summary>Creates a connection over a bus that the caller configures, starts and stops.</summary>
    public static BusConnection To(IBus bus, MassTransitOptions? options, TimeProvider? timeProvider, ConnectionMetrics? metrics)
    {
        ArgumentNullException.ThrowIfNull(bus);
        options = (options ?? new MassTransitOptions()).Copy();
        OptionsRules.ThrowIfInvalid(new MassTransitOptionsValidator(), options);
        return new BusConnection(bus, options, new ConnectionAge(timeProvider ?? TimeProvider.System)) { Metrics = metrics };
    }

    /// <summary>Creates the reporter of the connection's state, for the transport or the receiver.</summary>
    public ConnectionReporter CreateReporter(string purpose) => new(Options.ConnectionChanged, purpose, Target, Metrics, "masstransit");

    /// <summary>Sends one frame; completes with the broker's confirm.</summary>
    /// <exception cref="MessageReturnedException">The node has no queue.</exception>
    public virtual async Task SendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        var isSent = false;
        while (!isSent)
        {
            if (Link is { Failure: { } failure })
                throw new IOException(Link.Unreachable(failure), failure);
            if (Link?.Alarm.Reason is { } alarm)
                throw new IOException($"{Target} accepts no messages now: {alarm}.");
            isSent = await TrySendAsync(frame, node, cancellationToken).ConfigureAwait(false);
        }
    }

    /// <summary>Makes the buffer's own bus on RabbitMQ send over a new connection. The application uses its bus for its own messages too, so nothing of that one is ended.</summary>
    public void Renew() => Link?.End();

    /// <summary>Sends an empty message that reaches no queue, so that MassTransit connects.</summary>
    public async Task ConnectAsync(CancellationToken cancellationToken)
    {
        using var limit = new CancellationTokenSource(Options.PublishTimeout, Age.TimeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, cancellationToken);
        var endpoint = await Topology.GetFanOutAsync(Bus).ConfigureAwait(false);
        await endpoint.Send(new BatchEnvelope([]), new UnroutedPipe(), either.Token).ConfigureAwait(false);
    }

    /// <summary>Looks whether the broker is in an alarm: then the buffer's own bus on RabbitMQ sends nothing until it is over.</summary>
    public void LookForAlarm() => Link?.Alarm.Look(Topology.DirectName);

    /// <summary>True when the bus loses its messages when this process stops, so that receivers must stop after senders.</summary>
    public virtual bool IsLostAtStop => false;

    /// <summary>Called when a node's receiver has bound its queue.</summary>
    public virtual void Attach(int node)
    {
    }

    /// <summary>Called before a receiver stops: accepts no more frames, and waits for frames that would otherwise be lost.</summary>
    public virtual Task DrainAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>Called when a received frame was handled.</summary>
    public virtual void Complete()
    {
    }

    // False when MassTransit did not begin to send.
    private async Task<bool> TrySendAsync(byte[] frame, int? node, CancellationToken cancellationToken)
    {
        var endpoint = await FindEndpointAsync(node).ConfigureAwait(false);
        using var attempt = new SendAttempt(Age.TimeProvider, cancellationToken);
        try
        {
            await endpoint.Send(new BatchEnvelope(frame), new FramePipe(Topology, node, Options.Durable, attempt), attempt.Token).ConfigureAwait(false);
            return true;
        }
        catch (OperationCanceledException) when (attempt.Failure is { } cause)
        {
            cause.Throw();
            throw;
        }
        catch (OperationCanceledException) when (!attempt.HasBegun && !cancellationToken.IsCancellationRequested)
        {
            return false;
        }
    }

    // Looked up for each send: MassTransit caches endpoints, and disposes idle ones.
    private Task<ISendEndpoint> FindEndpointAsync(int? node) => node is { } number ? Topology.GetDirectAsync(Bus, number) : Topology.GetFanOutAsync(Bus);
}

/// <summary>Reports the state of the sender's connection while nothing is sent, as the bus's receive endpoints, which share it, observe it. A bus without receive endpoints reports nothing.</summary>
internal sealed class SenderWatch(ConnectionReporter reporter) : IReceiveEndpointObserver
{
    public Task Ready(ReceiveEndpointReady ready)
    {
        reporter.Open();
        return Task.CompletedTask;
    }

    public Task Stopping(ReceiveEndpointStopping stopping) => Task.CompletedTask;

    public Task Completed(ReceiveEndpointCompleted completed) => Task.CompletedTask;

    public Task Faulted(ReceiveEndpointFaulted faulted)
    {
        // An endpoint can also fail alone, for example because of its queue.
        if (FailureText.Find<BrokerUnreachableException>(faulted.Exception) is { } cause)
            reporter.Lose(FailureText.MessageOf(FailureText.CauseOf(cause)));
        return Task.CompletedTask;
    }
}

/// <summary>Configures MassTransit's send of a frame: the serializer, the routing key, persistence.</summary>
internal sealed class FramePipe(BusTopology topology, int? node, bool durable, SendAttempt? attempt = null) : IPipe<SendContext<BatchEnvelope>>
{
    public Task Send(SendContext<BatchEnvelope> context)
    {
        context.Serializer = FrameSerializer.Shared;
        context.Durable = durable;
        topology.Stamp(context);
        if (attempt is not null)
        {
            attempt.Begin();
            context.GetOrAddPayload(() => attempt);
        }

        if (topology.GetRoutingKey(node) is { } key && context.TryGetPayload(out RoutingKeySendContext? routed))
            routed.RoutingKey = key;
        if (context.TryGetPayload(out RabbitMqSendContext? rabbit))
        {
            // The broker returns a frame that reaches no queue, as MessageReturnedException.
            rabbit.Mandatory = true;
            rabbit.BasicProperties.Type = RabbitMqFrameProperties.Type;
            rabbit.BasicProperties.AppId = RabbitMqFrameProperties.AppId;
        }

        return Task.CompletedTask;
    }

    public void Probe(ProbeContext context) => context.CreateScope("batchkit");
}

/// <summary>Configures MassTransit's send of a message that reaches no queue.</summary>
internal sealed class UnroutedPipe : IPipe<SendContext<BatchEnvelope>>
{
    public Task Send(SendContext<BatchEnvelope> context)
    {
        context.Serializer = FrameSerializer.Shared;
        context.Durable = false;
        if (context.TryGetPayload(out RoutingKeySendContext? routed))
            routed.RoutingKey = BusAlarm.Key;
        return Task.CompletedTask;
    }

    public void Probe(ProbeContext context) => context.CreateScope("batchkit");
}

/// <summary>One attempt to send a frame. It ends with its first failure: MassTransit would send the same frame again after 3 s, even one for which the broker closes the channel.</summary>
/// <remarks>A failure to get a channel is reported to no one. MassTransit pauses for 3 s then too, so an attempt also ends when MassTransit does not begin to send in time.</remarks>
internal sealed class SendAttempt : IDisposable
{
    private static readonly TimeSpan BeginLimit = TimeSpan.FromMilliseconds(500);

    // The states of an attempt: one of the last two is its first and last change.
    private const int Waiting = 0;
    private const int Begun = 1;
    private const int Late = 2;

    private readonly CancellationTokenSource _limit;
    private readonly CancellationTokenSource _ended = new();
    private readonly CancellationTokenRegistration _expiring;
    private readonly CancellationTokenRegistration _cancelling;
    private int _state;

    public SendAttempt(TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        _limit = new CancellationTokenSource(BeginLimit, timeProvider);
        _expiring = _limit.Token.UnsafeRegister(static state => ((SendAttempt)state!).Expire(), this);
        _cancelling = cancellationToken.UnsafeRegister(static state => ((CancellationTokenSource)state!).Cancel(), _ended);
    }

    public CancellationToken Token => _ended.Token;

    /// <summary>Whether MassTransit has a channel for the frame.</summary>
    public bool HasBegun => Volatile.Read(ref _state) == Begun;

    /// <summary>Why it failed; null as long as it has not.</summary>
    public ExceptionDispatchInfo? Failure { get; private set; }

    public void Fail(Exception exception)
    {
        Failure ??= ExceptionDispatchInfo.Capture(exception);
        _ended.Cancel();
    }

    /// <exception cref="OperationCanceledException">The limit came first: the attempt has ended, and nothing was sent.</exception>
    public void Begin()
    {
        if (Interlocked.CompareExchange(ref _state, Begun, Waiting) == Late)
            throw new OperationCanceledException(_ended.Token);
    }

    public void Dispose()
    {
        _expiring.Dispose();
        _cancelling.Dispose();
        _limit.Dispose();
        _ended.Dispose();
    }

    private void Expire()
    {
        if (Interlocked.CompareExchange(ref _state, Late, Waiting) == Waiting)
            _ended.Cancel();
    }
}

/// <summary>Ends the attempts that fail.</summary>
internal sealed class SendAttemptObserver : ISendObserver
{
    public Task PreSend<T>(SendContext<T> context)
        where T : class => Task.CompletedTask;

    public Task PostSend<T>(SendContext<T> context)
        where T : class => Task.CompletedTask;

    public Task SendFault<T>(SendContext<T> context, Exception exception)
        where T : class
    {
        if (context.TryGetPayload(out SendAttempt? attempt))
            attempt.Fail(exception);
        return Task.CompletedTask;
    }
}

/// <summary>The time since a bus last began to connect, or failed. Shortly afterwards receivers may still be reconnecting.</summary>
internal sealed class ConnectionAge(TimeProvider timeProvider)
{
    private long _begun = timeProvider.GetTimestamp();

    public TimeProvider TimeProvider => timeProvider;

    public void Restart() => Volatile.Write(ref _begun, timeProvider.GetTimestamp());

    public bool IsBelow(TimeSpan limit) => timeProvider.GetElapsedTime(Volatile.Read(ref _begun)) < limit;
}
