using BatchKit.TestServers.Nats;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>Marks benchmarks that cannot run without NATS.</summary>
[AttributeUsage(AttributeTargets.Class)]
internal sealed class NeedsNatsAttribute : Attribute;

/// <summary>The one NATS of this run: from the environment, or started at the first need and stopped at the end.</summary>
internal static class NatsBroker
{
    private static readonly SemaphoreSlim Gate = new(1, 1);
    private static NatsServer? _server;

    public static async Task<Uri> GetAddressAsync()
    {
        await Gate.WaitAsync();
        try
        {
            _server ??= await NatsServer.ConnectOrStartAsync();
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
