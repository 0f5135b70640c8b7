namespace MudServer.Hosting;

/// <summary>The transport of output from the game to the clients' sockets.</summary>
internal enum MudTransport
{
    /// <summary>Directly to the sockets.</summary>
    Local = 0,

    /// <summary>Through frames and a receiver in memory, with the delay of a broker for each send.</summary>
    Memory = 1,

    /// <summary>Through MassTransit: in memory, or over RabbitMQ when it is set.</summary>
    MassTransit = 2,

    /// <summary>Through RabbitMQ.</summary>
    RabbitMq = 3,
}
