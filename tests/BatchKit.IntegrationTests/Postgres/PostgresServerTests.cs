using BatchKit.TestServers;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The tests' own server does what the tests of queues rely on.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class PostgresServerTests
{
    public PostgresServerTests() => RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);

    [Fact]
    public async Task A_stopped_server_starts_again_on_the_same_port_with_what_it_kept()
    {
        await using var server = await PostgresServer.StartOwnAsync();
        await ExecuteAsync(server, "create table kept (number int); insert into kept values (1)");
        var port = server.Port;

        await server.StopAsync();
        await server.StartAsync();

        Assert.Equal(port, server.Port);
        Assert.Equal(1, await AskAsync<int>(server, "select number from kept"));
    }

    [Fact]
    public async Task A_server_that_was_killed_while_it_worked_starts_again_with_what_was_committed()
    {
        await using var server = await PostgresServer.StartOwnAsync();
        await ExecuteAsync(server, "create table kept (number int); insert into kept values (1)");
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var connection = await dataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();
        await using (var command = new NpgsqlCommand("insert into kept values (2)", connection))
            await command.ExecuteNonQueryAsync();

        await server.KillAsync();
        await server.StartAsync();

        await Assert.ThrowsAnyAsync<NpgsqlException>(() => transaction.CommitAsync());
        Assert.Equal(1L, await AskAsync<long>(server, "select count(*) from kept"));
    }

    [Fact]
    public async Task A_frozen_server_answers_when_it_is_thawed()
    {
        await using var server = await PostgresServer.StartOwnAsync();
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var connection = await dataSource.OpenConnectionAsync();
        await using var command = new NpgsqlCommand("select 1", connection);
        await command.ExecuteScalarAsync();

        server.Freeze();
        var asked = command.ExecuteScalarAsync();
        var whileFrozen = await Task.WhenAny(asked, Task.Delay(TimeSpan.FromMilliseconds(200)));
        server.Thaw();

        Assert.NotSame(asked, whileFrozen);
        Assert.Equal(1, await asked.WaitAsync(Deadline.Time));
    }

    [Fact]
    public async Task A_frozen_server_can_be_killed()
    {
        await using var server = await PostgresServer.StartOwnAsync();
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var connection = await dataSource.OpenConnectionAsync();

        server.Freeze();
        await server.KillAsync();
        await server.StartAsync();

        Assert.Equal(1, await AskAsync<int>(server, "select 1"));
    }

    [Fact]
    public async Task A_server_keeps_what_it_commits_on_disk_and_has_the_lines_that_were_asked_for()
    {
        await using var server = await PostgresServer.StartOwnAsync(new PostgresServerOptions { MaxConnections = 17, Lines = ["work_mem = '5MB'"] });

        Assert.Equal("on", await AskAsync<string>(server, "show fsync"));
        Assert.Equal("on", await AskAsync<string>(server, "show synchronous_commit"));
        Assert.Equal("17", await AskAsync<string>(server, "show max_connections"));
        Assert.Equal("5MB", await AskAsync<string>(server, "show work_mem"));
        Assert.Equal("UTF8", await AskAsync<string>(server, "show server_encoding"));
    }

    [Fact]
    public async Task A_configuration_that_the_server_refuses_is_an_error_with_its_words()
    {
        var refused = new PostgresServerOptions { Lines = ["no_such_setting = 1"] };

        var error = await Assert.ThrowsAsync<ServerStartException>(() => PostgresServer.StartOwnAsync(refused));

        Assert.Contains("no_such_setting", error.Message, StringComparison.Ordinal);
    }

    private static async Task ExecuteAsync(PostgresServer server, string sql)
    {
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var command = dataSource.CreateCommand(sql);
        await command.ExecuteNonQueryAsync();
    }

    private static async Task<T> AskAsync<T>(PostgresServer server, string sql)
    {
        await using var dataSource = NpgsqlDataSource.Create(server.ConnectionString);
        await using var command = dataSource.CreateCommand(sql);
        return (T)(await command.ExecuteScalarAsync())!;
    }
}
