using BatchKit.MassTransit;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Creates settings for a broker of the tests.</summary>
internal static class MassTransitSome
{
    /// <summary>Settings that lead to a broker, or to a proxy before it.</summary>
    public static Action<MassTransitOptions> Settings(RabbitMqServer server, string prefix, int? port = null, Action<MassTransitOptions>? configure = null) => options =>
    {
        options.Prefix = prefix;
        options.QueueExpiry = TimeSpan.FromMinutes(10);
        options.PublishTimeout = TimeSpan.FromSeconds(3);
        options.RabbitMq = new MassTransitRabbitMqOptions
        {
            Hosts = [server.Host],
            Port = port ?? server.Port,
            UserName = server.UserName,
            Password = server.Password,
            VirtualHost = server.VirtualHost,
            ReconnectDelay = TimeSpan.FromMilliseconds(100),
        };
        configure?.Invoke(options);
    };
}
