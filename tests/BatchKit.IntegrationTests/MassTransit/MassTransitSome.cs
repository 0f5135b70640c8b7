using BatchKit.MassTransit;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Creates settings for a broker of the tests.</summary>
internal static class MassTransitSome
{
    /// <summary>Settings that lead to a broker, or to a proxy before it.</summary>
    public static Action<MassTransitOptions> Settings(RabbitMqServer server, string prefix, int? port = null, Action<MassTransitOptions>? configure = null) => options =>
    {
        var user = server.Address.UserInfo.Split(':');
        options.Prefix = prefix;
        options.QueueExpiry = TimeSpan.FromMinutes(10);
        options.PublishTimeout = TimeSpan.FromSeconds(3);
        options.RabbitMq = new MassTransitRabbitMqOptions
        {
            Hosts = [server.Host],
            Port = port ?? server.Port,
            UserName = Uri.UnescapeDataString(user[0]),
            Password = Uri.UnescapeDataString(user[1]),
            VirtualHost = server.Address.AbsolutePath.Length > 1 ? Uri.UnescapeDataString(server.Address.AbsolutePath[1..]) : "/",
            ReconnectDelay = TimeSpan.FromMilliseconds(100),
        };
        configure?.Invoke(options);
    };
}
