using BatchKit.Postgres.Schema;
using BatchKit.Testing;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>Connections stay with sends for a second; one that the server ended meanwhile is replaced.</summary>
public sealed class KeptConnectionsTests(PostgresFixture postgres) : IAsyncDisposable
{
    private readonly ManualTimeProvider _clock = new();
    private NpgsqlDataSource? _pool;

    [Fact]
    public async Task A_connection_is_used_again_and_given_back_after_a_second()
    {
        await using var connections = new KeptConnections(await PoolAsync(), _clock);
        var first = await AskAsync(connections);
        var second = await AskAsync(connections);

        var other = _pool!.OpenConnectionAsync(TestContext.Current.CancellationToken);
        Assert.False(other.IsCompleted);
        _clock.Advance(TimeSpan.FromSeconds(1));
        await using (await other.AsTask().WithinDeadline())
            Assert.Equal(first, second);

        Assert.Equal(first, await AskAsync(connections));
    }

    [Fact]
    public async Task What_is_idle_at_the_end_is_given_back_at_once_and_what_is_in_use_when_it_ends()
    {
        var connections = new KeptConnections(await PoolAsync(), _clock);
        var isOpen = new TaskCompletionSource();
        var asking = connections.UseAsync(
            async (connection, _) =>
            {
                await isOpen.Task;
                return connection.ProcessID;
            },
            TestContext.Current.CancellationToken);

        await connections.DisposeAsync();
        var other = _pool!.OpenConnectionAsync(TestContext.Current.CancellationToken);
        Assert.False(other.IsCompleted);
        isOpen.SetResult();

        await asking.WithinDeadline();
        await (await other.AsTask().WithinDeadline()).DisposeAsync();
    }

    [Fact]
    public async Task One_that_the_server_ended_is_replaced_in_silence()
    {
        await using var connections = new KeptConnections(await PoolAsync(), _clock);
        var first = await AskAsync(connections);
        await using var schema = await postgres.NewSchemaAsync();
        await schema.ExecuteAsync($"select pg_terminate_backend({first}, 5000)");

        Assert.NotEqual(first, await AskAsync(connections));
    }

    [Fact]
    public async Task What_the_server_refuses_is_not_asked_again()
    {
        await using var connections = new KeptConnections(await PoolAsync(), _clock);
        await AskAsync(connections);
        var asked = 0;

        await Assert.ThrowsAsync<PostgresException>(() => connections.UseAsync(
            (connection, token) =>
            {
                asked++;
                return ScalarAsync(connection, "select 1 / 0", token);
            },
            TestContext.Current.CancellationToken));

        Assert.Equal(1, asked);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_connection_in_which_something_threw_is_not_used_again(bool isKept)
    {
        await using var connections = new KeptConnections(await PoolAsync(), _clock);
        if (isKept)
            await AskAsync(connections);
        var spoiled = 0;

        await Assert.ThrowsAsync<NotSupportedException>(() => connections.UseAsync((connection, _) => ThrowAsync(spoiled = connection.ProcessID), TestContext.Current.CancellationToken));

        Assert.NotEqual(spoiled, await AskAsync(connections));
    }

    [Fact]
    public async Task A_pooled_connection_in_which_something_threw_is_not_used_again()
    {
        var pool = await PoolAsync();
        var spoiled = 0;

        await Assert.ThrowsAsync<NotSupportedException>(() => Detached.UseAsync(pool, (connection, _) => ThrowAsync(spoiled = connection.ProcessID), TestContext.Current.CancellationToken));

        Assert.NotEqual(spoiled, await Detached.UseAsync(pool, static (connection, _) => Task.FromResult(connection.ProcessID), TestContext.Current.CancellationToken));
    }

    [Theory]
    [InlineData(nameof(KeyNotFoundException))]
    [InlineData("CreateSchema")]
    [InlineData("later version")]
    [InlineData("Search Path")]
    public async Task What_this_package_throws_itself_leaves_the_pool_as_it_is(string cause)
    {
        await using var schema = await postgres.NewTablesAsync();
        var pool = _pool = NpgsqlDataSource.Create($"{(await postgres.GetAsync()).ConnectionString};Maximum Pool Size=1{(cause == "Search Path" ? ";Search Path='public,pg_catalog'" : string.Empty)}");
        var before = await ProcessAsync();

        Exception error = cause switch
        {
            nameof(KeyNotFoundException) => await Assert.ThrowsAsync<KeyNotFoundException>(() => new PostgresQueueAdmin(pool, schema.Name).CancelAsync("tasks", "key", TestContext.Current.CancellationToken)),
            "later version" => await UseLaterAsync(),
            _ => await Assert.ThrowsAsync<InvalidOperationException>(() => new SchemaGate(pool, schema.Name + "_missing", mayCreate: cause != "CreateSchema").PassAsync(TestContext.Current.CancellationToken).AsTask()),
        };

        Assert.NotEmpty(error.Message);
        Assert.Equal(before, await ProcessAsync());

        Task<int> ProcessAsync() => Detached.UseAsync(pool, static (connection, _) => Task.FromResult(connection.ProcessID), TestContext.Current.CancellationToken);

        async Task<Exception> UseLaterAsync()
        {
            await schema.ExecuteAsync("update {s}.version set number = 99");
            return await Assert.ThrowsAsync<InvalidOperationException>(() => PostgresSchema.EnsureSchemaAsync(pool, schema.Name, TestContext.Current.CancellationToken));
        }
    }

    [Fact]
    public async Task More_sends_at_a_time_than_connections_starve_none()
    {
        await using var connections = new KeptConnections(await PoolAsync(), _clock);

        await AssertNoneStarvesAsync(connections, senders: 6);
    }

    [Fact]
    public async Task Two_sends_that_failed_leave_nothing_that_starves_another()
    {
        await using var connections = new KeptConnections(await PoolAsync(size: 2), _clock);
        var open = 0;
        var areBothOpen = new TaskCompletionSource();
        await Task.WhenAll(Assert.ThrowsAsync<PostgresException>(FailAsync), Assert.ThrowsAsync<PostgresException>(FailAsync));

        await using var other = await _pool!.OpenConnectionAsync(TestContext.Current.CancellationToken);

        await AssertNoneStarvesAsync(connections, senders: 2);

        Task<int> FailAsync() => connections.UseAsync(
            async (connection, token) =>
            {
                if (Interlocked.Increment(ref open) == 2)
                    areBothOpen.SetResult();
                await areBothOpen.Task.WithinDeadline();
                return await ScalarAsync(connection, "select 1 / 0", token);
            },
            TestContext.Current.CancellationToken);
    }

    public ValueTask DisposeAsync() => _pool?.DisposeAsync() ?? default;

    private static async Task AssertNoneStarvesAsync(KeptConnections connections, int senders)
    {
        const int enough = 20;
        var sent = new int[senders];

        await Task.WhenAll(Enumerable.Range(0, senders).Select(sender => Task.Run(async () =>
        {
            // Each goes on until the last has enough, so that a send that is starved shows.
            while (Array.Exists(sent, static count => count < enough))
            {
                await AskAsync(connections);
                sent[sender]++;
            }
        }))).WithinDeadline();

        Assert.All(sent, count => Assert.InRange(count, enough, 3 * enough));
    }

    private static Task<int> AskAsync(KeptConnections connections) =>
        connections.UseAsync(static (connection, token) => ScalarAsync(connection, "select pg_backend_pid()", token), TestContext.Current.CancellationToken);

    // As when a listener of Npgsql's activities throws: an answer may be left unread.
    private static Task<int> ThrowAsync(int process) => Task.FromException<int>(new NotSupportedException($"In server process {process}."));

    private static async Task<int> ScalarAsync(NpgsqlConnection connection, string sql, CancellationToken cancellationToken)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        return (int)(await command.ExecuteScalarAsync(cancellationToken))!;
    }

    private async Task<NpgsqlDataSource> PoolAsync(int size = 1) => _pool = NpgsqlDataSource.Create((await postgres.GetAsync()).ConnectionString + $";Maximum Pool Size={size}");
}
