using System.Globalization;
using BatchKit.Postgres;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What holds while the server is restarted and killed, and its connections fall silent or are reset.</summary>
[Trait("Lane", "faults: PostgreSQL is stopped, killed and frozen again and again")]
public sealed class PostgresFaultTests(OwnPostgresFixture fixture, ITestOutputHelper report) : IClassFixture<OwnPostgresFixture>
{
    /// <summary>How often the server is restarted: 4 times unless this environment variable says otherwise.</summary>
    private const string RestartsVariable = "BATCHKIT_TEST_RESTARTS";

    private static readonly TimeSpan Poll = TimeSpan.FromSeconds(1);

    // For a machine that runs other tests beside this one; without polling it would be found never.
    private static readonly TimeSpan Allowance = TimeSpan.FromSeconds(5);

    // Longer than any wait of a test, so that only a notification finds the work.
    private static readonly TimeSpan NoPoll = TimeSpan.FromMinutes(5);

    private static readonly TimeSpan FrozenTime = TimeSpan.FromSeconds(3);

    private static int Restarts => int.Parse(Environment.GetEnvironmentVariable(RestartsVariable) ?? "4", CultureInfo.InvariantCulture);

    [Theory]
    [InlineData("stopped")]
    [InlineData("killed")]
    public async Task Under_load_a_server_that_is_stopped_or_killed_loses_nothing_and_stores_nothing_twice(string how)
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var way = await QueueWay.StartAsync(server, schema.Name);
        using var stop = new CancellationTokenSource();
        var writer = way.WriteUntilAsync(stop.Token);

        for (var restart = 0; restart < Restarts; restart++)
        {
            await way.WaitForMoreAsync(500);
            await (how == "killed" ? server.KillAsync() : server.StopAsync());
            await way.WaitForFaultAsync("");
            await server.StartAsync();
        }

        await way.WaitForMoreAsync(500);
        await stop.CancelAsync();
        await writer.WithinDeadline();
        await way.AssertNothingLostOrStoredTwiceAsync();
        await way.WaitUntilReceivingAsync();
        report.WriteLine($"{Restarts} times {how}: {way.Written:N0} written and acknowledged, {way.Handled.Count:N0} handled, {way.Handled.Handlings:N0} handlings, 0 stored twice.");
    }

    [Fact]
    public async Task After_a_restart_a_notification_finds_the_work_again()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var way = await QueueWay.StartAsync(server, schema.Name, receiving => receiving.PollInterval = NoPoll);
        await way.WriteAsync(1);
        await way.Handled.WaitForCountAsync(1);

        await server.StopAsync();
        await way.WaitForFaultAsync("");
        await server.StartAsync();
        await WaitForListenerAsync(server);

        for (var count = 2; count <= 5; count++)
        {
            await way.WriteAsync(1);
            await way.Handled.WaitForCountAsync(count);
        }
    }

    [Fact]
    public async Task When_the_listening_connection_falls_silent_polling_finds_the_work()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var way = await QueueWay.StartAsync(server, schema.Name, receiving =>
        {
            receiving.ListenConnectionString = Through(server, proxy, schema);
            receiving.ListenKeepAlive = TimeSpan.FromHours(1);
            receiving.PollInterval = Poll;
        });
        await WaitForListenerAsync(server, schema.Name);

        proxy.Silence();
        for (var count = 1; count <= 5; count++)
        {
            await way.WriteAsync(1);
            await way.Handled.WaitForCountAsync(count);
        }

        report.WriteLine($"Found {way.Handled.Slowest.TotalSeconds:0.000} s after it was enqueued, at the latest.");
        Assert.InRange(way.Handled.Slowest, TimeSpan.Zero, Poll + TimeSpan.FromSeconds(1) + Allowance);
        Assert.Equal(1, proxy.AcceptedConnections);
    }

    [Fact]
    public async Task A_listening_connection_that_fell_silent_is_replaced()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var way = await QueueWay.StartAsync(server, schema.Name, receiving =>
        {
            receiving.ListenConnectionString = Through(server, proxy, schema);
            receiving.ListenKeepAlive = TimeSpan.FromMilliseconds(200);
            receiving.PollInterval = NoPoll;
        });
        await WaitForListenerAsync(server, schema.Name);

        // What is written before the connection is replaced is found when it is.
        proxy.Silence();
        for (var count = 1; count <= 5; count++)
        {
            await way.WriteAsync(1);
            await way.Handled.WaitForCountAsync(count);
        }
    }

    [Fact]
    public async Task A_listening_connection_that_was_reset_is_replaced_and_what_came_meanwhile_is_found()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var way = await QueueWay.StartAsync(server, schema.Name, receiving =>
        {
            receiving.ListenConnectionString = Through(server, proxy, schema);
            receiving.PollInterval = NoPoll;
        });
        await WaitForListenerAsync(server, schema.Name);

        for (var round = 1; round <= 10; round++)
        {
            proxy.ResetAll();
            await way.WriteAsync(1);
            await way.Handled.WaitForCountAsync(round);
        }
    }

    [Fact]
    public async Task A_server_that_is_frozen_longer_than_a_statement_may_take_loses_nothing()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var way = await QueueWay.StartAsync(
            server, schema.Name, receiving => receiving.CommandTimeout = TimeSpan.FromSeconds(1), sending => sending.CommandTimeout = TimeSpan.FromSeconds(1));
        using var stop = new CancellationTokenSource();
        var writer = way.WriteUntilAsync(stop.Token);
        await way.WaitForMoreAsync(500);

        server.Freeze();
        await Task.Delay(FrozenTime);
        server.Thaw();

        await way.WaitForMoreAsync(500);
        await stop.CancelAsync();
        await writer.WithinDeadline();
        await way.AssertNothingLostOrStoredTwiceAsync();
    }

    [Fact]
    public async Task Stopping_with_the_server_dead_ends()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        var way = await QueueWay.StartAsync(server, schema.Name);
        await way.WriteAsync(100);
        await way.Handled.WaitForCountAsync(100);

        await server.KillAsync();
        try
        {
            await way.WaitForFaultAsync("");
            await way.DisposeAsync().WithinDeadline();
        }
        finally
        {
            await server.StartAsync();
        }
    }

    private static string Through(PostgresServer server, TcpProxy proxy, TestSchema schema) =>
        new NpgsqlConnectionStringBuilder(server.ConnectionString) { Port = proxy.Port, Pooling = false, ApplicationName = schema.Name }.ConnectionString;

    private static async Task WaitForListenerAsync(PostgresServer server, string? name = null)
    {
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await Until.TrueAsync(async () =>
        {
            // By its name, because a listener of an earlier test may not have gone yet. One that was silent for as long as its keep-alive has had its check behind its LISTEN.
            await using var command = dataSource.CreateCommand("""
                select exists (select from pg_stat_activity where state = 'idle' and ($1 is null or application_name = $1)
                    and (query ilike 'listen %' or application_name = $1 and query like '%transaction_read_only%'))
                """);
            command.Parameters.Add(new NpgsqlParameter<string?> { TypedValue = name, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Text });
            return await command.ExecuteScalarAsync() is true;
        });
    }
}
