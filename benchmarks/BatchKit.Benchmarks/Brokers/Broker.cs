using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>The one RabbitMQ of this run: from the environment, or started at the first need and stopped at the end.</summary>
internal static class Broker
{
    private static readonly SemaphoreSlim Gate = new(1, 1);
    private static RabbitMqServer? _server;

    public static async Task<Uri> GetAddressAsync()
    {
        await Gate.WaitAsync();
        try
        {
            _server ??= await RabbitMqServer.ConnectOrStartAsync();
            return _server.Address;
        }
        finally
        {
            Gate.Release();
        }
    }

    public static async Task StopAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
        _server = null;
    }
}
