using BatchKit.TestServers.Nats;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>The brokers of this run: from the environment, or started at the first need and stopped at the end.</summary>
internal static class Broker
{
    // Benchmarks are set up one after another, so nothing guards these.
    private static RabbitMqServer? _rabbitMq;
    private static NatsServer? _nats;

    public static async Task<Uri> GetRabbitMqAsync() => (_rabbitMq ??= await RabbitMqServer.ConnectOrStartAsync()).Address;

    public static async Task<Uri> GetNatsAsync() => (_nats ??= await NatsServer.ConnectOrStartAsync()).Address;

    public static async Task StopAsync()
    {
        if (_rabbitMq is not null)
            await _rabbitMq.DisposeAsync();
        if (_nats is not null)
            await _nats.DisposeAsync();
    }
}
