using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>The one RabbitMQ of this run: from the environment, or started at the first need and stopped at the end.</summary>
internal static class Broker
{
    private static readonly SemaphoreSlim Gate = new(1, 1);
    private static RabbitMqServer? s_server;

    public static async Task<Uri> GetAddressAsync()
    {
        await Gate.WaitAsync();
        try
        {
            s_server ??= await RabbitMqServer.ConnectOrStartAsync();
            return s_server.Address;
        }
        finally
        {
            Gate.Release();
        }
    }

    public static async Task StopAsync()
    {
        if (s_server is not null)
            await s_server.DisposeAsync();
        s_server = null;
    }
}
