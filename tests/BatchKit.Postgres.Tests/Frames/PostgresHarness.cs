using BatchKit.Testing.Specification;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>A transport and its receiver over one schema, and what else must be disposed before the schema.</summary>
internal sealed class PostgresHarness(TestSchema schema, IBatchTransport transport, PostgresQueueReceiver receiver, params IAsyncDisposable[] others) : TransportHarness
{
    public override IBatchTransport Transport => transport;

    public override ValueTask DisposeTransportAsync() => ((IAsyncDisposable)transport).DisposeAsync();

    public override async ValueTask DisposeAsync()
    {
        await DisposeTransportAsync();
        await receiver.DisposeAsync();
        foreach (var other in others)
            await other.DisposeAsync();
        await schema.DisposeAsync();
    }
}
