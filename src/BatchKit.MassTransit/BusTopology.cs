using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Where frames go on one kind of bus, and how a node's queue is bound to it.</summary>
internal abstract class BusTopology(MassTransitOptions options)
{
    protected MassTransitOptions Options { get; } = options;

    protected string DirectName => $"{Options.Prefix}.direct";

    protected string FanOutName => $"{Options.Prefix}.fanout";

    public static BusTopology For(IBus bus, MassTransitOptions options) => bus.Address.Scheme switch
    {
        "rabbitmq" or "rabbitmqs" or "amqp" or "amqps" => new RabbitMqTopology(options),
        "loopback" => new InMemoryTopology(options),
        _ => new PublishTopology(options),
    };

    public string GetQueueName(int node) => $"{Options.Prefix}.node.{node}";

    /// <summary>Where frames for one node go.</summary>
    public abstract Task<ISendEndpoint> GetDirectAsync(IBus bus, int node);

    /// <summary>Where frames for named destinations go: to every node.</summary>
    public abstract Task<ISendEndpoint> GetFanOutAsync(IBus bus);

    /// <summary>Binds a node's queue to both.</summary>
    public abstract void Bind(IReceiveEndpointConfigurator endpoint, int node);

    /// <summary>Adds to a frame what <see cref="IsOurs"/> asks for.</summary>
    public virtual void Stamp(SendContext context)
    {
    }

    /// <summary>False for a frame that another prefix's buffer sent to all.</summary>
    public virtual bool IsOurs(ConsumeContext context) => true;
}
