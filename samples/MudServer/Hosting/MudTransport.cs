namespace MudServer.Hosting;

/// <summary>How output gets from the game to the clients' sockets.</summary>
internal enum MudTransport
{
    /// <summary>Straight to the sockets.</summary>
    Local = 0,

    /// <summary>Through frames and a receiver, as with a broker, but in memory, with a broker's time for each send.</summary>
    Memory = 1,

    /// <summary>Through MassTransit: in memory, or over RabbitMQ where that is set.</summary>
    MassTransit = 2,

    /// <summary>Through RabbitMQ.</summary>
    RabbitMq = 3,
}
