using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Creates settings for a broker of the tests.</summary>
internal static class RabbitMqSome
{
    /// <summary>Settings with a topology that no other test has.</summary>
    public static RabbitMqOptions Options(RabbitMqServer server, Action<RabbitMqOptions>? configure = null) => Options(server, server.Port, configure);

    /// <summary>The same, over a proxy's port.</summary>
    public static RabbitMqOptions Options(RabbitMqServer server, int port, Action<RabbitMqOptions>? configure = null)
    {
        var options = new RabbitMqOptions();
        Configure(options, server, port, Some.Name("test"));
        configure?.Invoke(options);
        return options;
    }

    /// <summary>A frame as the next version of the package may write it: its fourth byte is the version.</summary>
    public static byte[] FrameOfNextVersion()
    {
        var frame = Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "from a newer sender"));
        frame[3]++;
        return frame;
    }

    public static void Configure(RabbitMqOptions options, RabbitMqServer server, int port, string prefix)
    {
        options.Hosts = [$"{server.Host}:{port}"];
        (options.UserName, options.Password, options.VirtualHost) = (server.UserName, server.Password, server.VirtualHost);
        options.Prefix = prefix;
        options.QueueExpiry = TimeSpan.FromMinutes(10);
        options.MaxReconnectDelay = TimeSpan.FromMilliseconds(500);
    }
}
