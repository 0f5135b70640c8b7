using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>What a host that accepts connections and answers nothing does to those who know another.</summary>
public sealed class SilentHostTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_first_host_that_answers_nothing_holds_up_no_send_for_ever()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var silent = TcpProxy.Start(server.Host, server.Port);
        silent.Stall();
        // Each attempt of the transport ends long before Npgsql gives the silent host up.
        await using var dataSource = NpgsqlDataSource.Create($"{server.ConnectionString};Host=127.0.0.1:{silent.Port},{server.Host}:{server.Port};Timeout=2");
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name, CommandTimeout = TimeSpan.FromMilliseconds(500) });
        await using var output = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(50) });

        output.Write(OutputHandle.Named("tasks"), "one"u8);
        await output.FlushAsync().WithinDeadline();

        Assert.Equal(1, output.GetStatistics().AcknowledgedMessages);
        Assert.NotEqual(0, output.GetStatistics().FailedSends);
    }

    [Fact]
    public async Task Health_names_all_hosts()
    {
        await using var dataSource = NpgsqlDataSource.Create("Host=127.0.0.1:1,127.0.0.1:2;Username=postgres");
        await using var transport = new PostgresQueueTransport(dataSource);

        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.StartsWith("PostgreSQL at 127.0.0.1:1,127.0.0.1:2 can't be used: No connection to a host that takes writes could be opened.", fault, StringComparison.Ordinal);
    }
}
