using BatchKit.Testing.Specification;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>A transport and its receiver over one schema.</summary>
internal sealed class PostgresHarness(TestSchema schema, PostgresQueueTransport transport, PostgresQueueReceiver receiver, params object[] options) : TransportHarness
{
    public override IBatchTransport Transport => transport;

    public override IReadOnlyList<object> Options => options;

    public override ValueTask DisposeTransportAsync() => transport.DisposeAsync();

    public override async ValueTask DisposeAsync()
    {
        await transport.DisposeAsync();
        await receiver.DisposeAsync();
        await schema.DisposeAsync();
    }
}
