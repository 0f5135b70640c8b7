using System.Globalization;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using MassTransit.RabbitMqTransport;
using MassTransit.Transports.Fabric;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;
using ExchangeType = MassTransit.Transports.Fabric.ExchangeType;
using RabbitMqExchangeType = RabbitMQ.Client.ExchangeType;

namespace BatchKit.MassTransit;

/// <summary>The addresses of frames on one kind of bus, and the bindings of a node's queue.</summary>
internal abstract class BusTopology(MassTransitOptions options)
{
    protected MassTransitOptions Options { get; } = options;

    public string DirectName => $"{Options.Prefix}.direct";

    public static BusTopology For(IBus bus, MassTransitOptions options) => bus.Address.Scheme switch
    {
        "rabbitmq" or "rabbitmqs" or "amqp" or "amqps" => new RabbitMqTopology(options),
        "loopback" => new InMemoryTopology(options),
        _ => new PublishTopology(options),
    };

    public string GetQueueName(int node) => $"{Options.Prefix}.node.{node}";

    /// <summary>Returns the endpoint for frames to one node.</summary>
    public abstract Task<ISendEndpoint> GetDirectAsync(IBus bus, int node);

    /// <summary>Returns the endpoint for frames to every node, which carry named handles' output.</summary>
    public abstract Task<ISendEndpoint> GetFanOutAsync(IBus bus);

    /// <summary>Binds a node's queue, so that it gets the frames to the node and those to every node.</summary>
    /// <param name="endpoint">The node's endpoint.</param>
    /// <param name="node">The node.</param>
    /// <param name="lease">Leases the node's number over a connection to RabbitMQ; not called on other buses.</param>
    /// <param name="run">Gets the faults of the bindings while the endpoint receives.</param>
    public abstract void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease);

    /// <summary>The routing key of frames to one node, or to every node.</summary>
    public virtual string? GetRoutingKey(int? node) => node?.ToString(CultureInfo.InvariantCulture);

    /// <summary>Adds the header that <see cref="IsOurs"/> checks.</summary>
    public virtual void Stamp(SendContext context)
    {
    }

    /// <summary>False for a frame to every node from a buffer with another prefix.</summary>
    public virtual bool IsOurs(ConsumeContext context) => true;
}

/// <summary>RabbitMQ: the direct exchange and the keys of <c>BatchKit.RabbitMQ</c>, so that nodes of both packages reach each other.</summary>
internal sealed class RabbitMqTopology : BusTopology
{
    // How long the broker may take to answer a check on the application's bus, which has no setting for it.
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);

    private readonly Uri _direct;

    // An exchange, not a queue: for a queue address MassTransit declares the queue when it sends, which would re-create the queue of a node that is gone.
    public RabbitMqTopology(MassTransitOptions options)
        : base(options) => _direct = new Uri($"exchange:{DirectName}?type={RabbitMqExchangeType.Direct}&durable=true");

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(_direct);

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetSendEndpoint(_direct);

    public override string GetRoutingKey(int? node) => node is { } number ? RabbitMqKeys.Node(number) : RabbitMqKeys.EveryNode;

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease)
    {
        var queue = (IRabbitMqReceiveEndpointConfigurator)endpoint;
        queue.Durable = Options.Durable;
        queue.QueueExpiration = Options.QueueExpiry;
        // Two processes with the same node number would share the queue's frames and lose their order. With this setting the second one waits.
        queue.SingleActiveConsumer = true;
        if (Options.UseQuorumQueues)
        {
            queue.SetQuorumQueue();
            // Without it, RabbitMQ 4 drops a frame after 20 deliveries, and each lost connection counts as one for all frames that were sent ahead. RabbitMQ 3 does not take -1, which means no limit.
            queue.SetQueueArgument("x-delivery-limit", int.MaxValue);
        }

        queue.ConfigureChannel(channel => channel.UseFilter(new LostAnswerFilter(run)));
        endpoint.ConfigureReceive(receive => receive.UseFilter(new FaultedFrameFilter(run)));
        var limit = Options.RabbitMq?.ConnectTimeout ?? AnswerLimit;
        queue.ConfigureChannel(channel => channel.UseFilter(
            new TopologyCheckFilter(run, Options.MaxFrameBytes, Options.TopologyCheckInterval, limit, broker => DeclareAsync(broker, node), lease)));
        foreach (var key in GetKeys(node))
        {
            queue.Bind(DirectName, binding =>
            {
                binding.ExchangeType = RabbitMqExchangeType.Direct;
                binding.RoutingKey = key;
                binding.Durable = true;
            });
        }
    }

    // The node's own key first: if a direct frame were returned and a later frame to all nodes arrived, the receiver would drop the resent direct frame as a repeat.
    private static string[] GetKeys(int node) => [RabbitMqKeys.Node(node), RabbitMqKeys.EveryNode, RabbitMqKeys.AllNodes];

    // As MassTransit declares it: the exchange is bound to the queue's own exchange, and that one to the queue. Returns how many frames wait in the queue.
    private async Task<uint> DeclareAsync(IChannel channel, int node)
    {
        var queue = GetQueueName(node);
        await channel.ExchangeDeclareAsync(DirectName, RabbitMqExchangeType.Direct, durable: true).ConfigureAwait(false);
        await channel.ExchangeDeclareAsync(queue, RabbitMqExchangeType.Fanout, Options.Durable).ConfigureAwait(false);
        await channel.QueueBindAsync(queue, queue, string.Empty).ConfigureAwait(false);
        foreach (var key in GetKeys(node))
            await channel.ExchangeBindAsync(queue, DirectName, key).ConfigureAwait(false);
        return (await channel.QueueDeclarePassiveAsync(queue).ConfigureAwait(false)).MessageCount;
    }
}

/// <summary>Makes a failure that MassTransit retries of what it would wait for without limit, or take for the endpoint's stop. In both cases the endpoint would never receive again.</summary>
/// <remarks>
/// The client cancels a declaration or a consume that the broker does not answer in time, and MassTransit takes a cancellation for the endpoint's stop. If the connection ends while a consume is answered, the
/// client may tell the consumer neither that it has begun nor that it has ended (version 7.1.2), and MassTransit waits for either. Where the client's own end of a connection hangs (version 7.2.2, issues 1968 and
/// 1976), it tells the channels nothing, and they seem open.
/// </remarks>
internal sealed class LostAnswerFilter(EndpointRun run) : IFilter<ChannelContext>
{
    /// <summary>How long the broker may take to close a channel, or to answer a check.</summary>
    public static readonly TimeSpan CloseLimit = TimeSpan.FromSeconds(1);

    // How long MassTransit may take to end the endpoint's use of a closed channel, besides the frame that is being received.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(5);

    // Between two looks at whether the channel is still in use.
    private static readonly TimeSpan LookInterval = TimeSpan.FromSeconds(1);

    public async Task Send(ChannelContext context, IPipe<ChannelContext> next)
    {
        try
        {
            await ReceiveAsync(context, next).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception) when (!run.IsStopping)
        {
            await AbortAsync(context, run).ConfigureAwait(false);
            throw new TimeoutException("The broker did not answer the receiver in time.", exception);
        }
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("lostAnswer");

    /// <summary>Ends the channel of an endpoint. MassTransit then declares and consumes on a new one.</summary>
    public static async Task AbortAsync(ChannelContext context, EndpointRun run) =>
        await context.Channel.AbortAsync().WaitAsync(CloseLimit, run.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);

    private async Task ReceiveAsync(ChannelContext context, IPipe<ChannelContext> next)
    {
        var connections = run.Connections;
        var receiving = next.Send(context);
        while (!receiving.IsCompleted && context.Channel.IsOpen && run.Connections == connections && !run.IsAbandoned)
            await receiving.WaitAsync(LookInterval, run.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        // Known at once, although what follows waits for the frame in hand.
        run.Complete();
        // As the active consumer of its queue, an endpoint that stops would keep the frames.
        if (run.IsAbandoned)
            await AbortAsync(context, run).ConfigureAwait(false);
        do
        {
            await receiving.WaitAsync(EndLimit, run.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        while (!receiving.IsCompleted && run.Deliveries.HasFrame);
        if (!receiving.IsCompleted)
        {
            // What it throws later is of no use to anyone.
            _ = receiving.ContinueWith(static abandoned => abandoned.Exception, TaskScheduler.Default);
            var exception = new TimeoutException("The channel ended, and its receiver was not told.");
            // MassTransit now ends the channel, and may wait for that without limit too.
            run.Fail(exception);
            throw exception;
        }

        await receiving.ConfigureAwait(false);
    }
}

/// <summary>Ends the channel of a frame that failed, before MassTransit gives the frame back to the broker.</summary>
/// <remarks>
/// An endpoint inherits the filters of its bus, and any of them may throw. MassTransit would go on with the frames that it has prefetched, and the failed frame would come again behind them and count as a
/// repeat. So none of the channel's frames is received any more, and the broker delivers all of them again, in order, over the next channel.
/// </remarks>
internal sealed class FaultedFrameFilter(EndpointRun run) : IFilter<ReceiveContext>
{
    // The client delivers the frames of a channel one at a time, but those of two channels may overlap.
    private volatile IChannel? _ended;

    public async Task Send(ReceiveContext context, IPipe<ReceiveContext> next)
    {
        var channel = context.GetPayload<ChannelContext>();
        if (channel.Channel == _ended)
            throw new OperationCanceledException("An earlier frame failed, and comes again first.");
        try
        {
            await next.Send(context).ConfigureAwait(false);
        }
        catch (Exception) when (!run.IsStopping)
        {
            _ended = channel.Channel;
            await LostAnswerFilter.AbortAsync(channel, run).ConfigureAwait(false);
            throw;
        }
    }

    public void Probe(ProbeContext context) => context.CreateFilterScope("faultedFrame");
}

/// <summary>MassTransit's in-memory transport, with the same two exchanges. It drops frames for which no queue is bound, so <see cref="InMemoryConnection"/> checks for a receiver first.</summary>
internal sealed class InMemoryTopology : BusTopology
{
    private readonly Uri _direct;
    private readonly Uri _fanOut;

    public InMemoryTopology(MassTransitOptions options)
        : base(options)
    {
        _direct = new Uri($"exchange:{DirectName}?type={nameof(ExchangeType.Direct)}");
        _fanOut = new Uri($"exchange:{FanOutName}?type={nameof(ExchangeType.FanOut)}");
    }

    private string FanOutName => $"{Options.Prefix}.fanout";

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(_direct);

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetSendEndpoint(_fanOut);

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease)
    {
        var queue = (IInMemoryReceiveEndpointConfigurator)endpoint;
        queue.Bind(DirectName, ExchangeType.Direct, node.ToString(CultureInfo.InvariantCulture));
        queue.Bind(FanOutName, ExchangeType.FanOut);
    }
}

/// <summary>Any other bus: a node's queue by its short address, and MassTransit's own publishing of the message type for named destinations.</summary>
internal sealed class PublishTopology(MassTransitOptions options) : BusTopology(options)
{
    // A published message reaches all receivers of its type, whatever their prefix.
    private const string PrefixHeader = "BatchKit-Prefix";

    public override Task<ISendEndpoint> GetDirectAsync(IBus bus, int node) => bus.GetSendEndpoint(new Uri($"queue:{GetQueueName(node)}"));

    public override Task<ISendEndpoint> GetFanOutAsync(IBus bus) => bus.GetPublishSendEndpoint<BatchEnvelope>();

    public override void Bind(IReceiveEndpointConfigurator endpoint, int node, EndpointRun run, Func<IConnection, Task> lease) => endpoint.ConfigureConsumeTopology = true;

    public override void Stamp(SendContext context) => context.Headers.Set(PrefixHeader, Options.Prefix);

    public override bool IsOurs(ConsumeContext context) => context.Headers.Get<string>(PrefixHeader) == Options.Prefix;
}
