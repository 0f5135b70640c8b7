using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>An open channel, the connection that carries it and nothing else, and when it was opened.</summary>
internal sealed record OpenChannel(IConnection Connection, IChannel Channel, long OpenedTimestamp);
