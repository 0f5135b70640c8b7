using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Npgsql;

namespace BatchKit.Postgres.Tests;

public sealed class DisposalTests
{
    [Fact]
    public async Task Services_dispose_of_a_transport_that_was_resolved_with_and_without_its_key()
    {
        var services = new ServiceCollection();
        services.AddSingleton(static _ => NpgsqlDataSource.Create("Host=localhost"));
        var name = services.AddBatchKit().UsePostgres().Name;
        var provider = services.BuildServiceProvider();

        var keyed = provider.GetRequiredKeyedService<PostgresQueueTransport>(name);
        var unkeyed = provider.GetRequiredService<PostgresQueueTransport>();
        await provider.DisposeAsync().WithinDeadline();
        // Only some versions of the container dispose of it once for each registration.
        await keyed.DisposeAsync().WithinDeadline();

        Assert.Same(keyed, unkeyed);
        await Assert.ThrowsAsync<ObjectDisposedException>(() => keyed.SendAsync(default, CancellationToken.None).AsTask());
    }
}
