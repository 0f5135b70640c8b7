using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>Whatever the server says no to is reported with its cause, and the same send succeeds when it says yes again.</summary>
public sealed class SendFaultTests(PostgresFixture postgres)
{
    [Theory]
    [InlineData("statement_timeout=1s", PostgresErrorCodes.QueryCanceled)]
    [InlineData("lock_timeout=100ms", PostgresErrorCodes.LockNotAvailable)]
    public async Task A_time_limit_of_the_server_is_reported_and_loses_nothing(string setting, string code)
    {
        await using var place = SendingPlace.Make(await postgres.NewSchemaAsync(), settings: $"Options=-c {setting}");
        await place.RetrySendAsync(1, "one");

        var error = await WhileProducersAreLockedAsync(place, () => place.FailSendAsync(2, "two"));

        Assert.Equal(code, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        await SucceedAsync(place);
    }

    [Fact]
    public async Task Our_own_time_limit_is_reported_by_name_and_loses_nothing()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.CommandTimeout = TimeSpan.FromSeconds(1));
        await place.RetrySendAsync(1, "one");

        var error = await WhileProducersAreLockedAsync(place, () => place.FailSendAsync(2, "two"));

        Assert.IsType<TimeoutException>(error.InnerException);
        Assert.Contains(nameof(PostgresOptions.CommandTimeout), error.Message, StringComparison.Ordinal);
        await SucceedAsync(place);
    }

    [Fact]
    public async Task What_fails_at_the_commit_is_reported_and_loses_nothing()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.RetrySendAsync(1, "one");
        await place.Schema.ExecuteAsync("""
            create function {s}.refuse() returns trigger language plpgsql as $$ begin raise exception 'not now' using errcode = '40001'; end $$;
            create constraint trigger refuse after insert on {s}.messages deferrable initially deferred for each row execute function {s}.refuse()
            """);

        var error = await place.FailSendAsync(2, "two");
        await place.Schema.ExecuteAsync("drop trigger refuse on {s}.messages");

        Assert.Equal(PostgresErrorCodes.SerializationFailure, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        await SucceedAsync(place);
    }

    [Fact]
    public async Task A_notification_that_is_refused_fails_no_send()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var place = SendingPlace.Make(TestSchema.On(server), settings: "Username=plain");
        await place.Schema.ExecuteAsync("create role plain login; grant create on database postgres to plain; revoke execute on function pg_catalog.pg_notify(text, text) from public");

        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await SucceedAsync(place);
    }

    [Fact]
    public async Task A_deadlock_is_reported_and_loses_nothing()
    {
        // The rival would wait a minute before it looks for a deadlock; so it is the send that finds it. It looks once, and the rival must wait by then.
        await using var place = SendingPlace.Make(await postgres.NewSchemaAsync(), settings: "Options=-c deadlock_timeout=3s");
        await place.RetrySendAsync(1, "one");
        await using var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await ExecuteAsync(rival, $"set deadlock_timeout = '1min'; insert into {place.Schema.Quoted}.unique_keys (queue, key) select id, 'taken' from {place.Schema.Quoted}.queues");

        var failing = Assert.ThrowsAsync<IOException>(() => place.SendAsync(place.Batch("tasks", 2, Some.Message("two", QueueMessageHeader.Create(uniqueKey: "taken")))));
        await place.WaitForLockedAsync();
        var locking = LockProducersAsync(rival, place);
        var error = await failing;
        await locking;
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);

        Assert.Equal(PostgresErrorCodes.DeadlockDetected, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        await place.SendAsync(place.Batch("tasks", 2, Some.Message("two", QueueMessageHeader.Create(uniqueKey: "taken"))));
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    [Fact]
    public async Task Tables_that_were_dropped_are_made_again()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("other", 1, "one"), place.Batch("tasks", 2, "two"));
        await place.Schema.ExecuteAsync("drop schema {s} cascade");

        await place.FailSendAsync(3, "three");
        await place.SendAsync(place.Batch("tasks", 3, "three"));

        Assert.Equal(["three"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_schema_of_a_later_version_is_reported()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await PostgresSchema.EnsureSchemaAsync(place.Schema.DataSource, place.Schema.Name, TestContext.Current.CancellationToken);
        await place.Schema.ExecuteAsync("update {s}.version set number = 4711");

        var error = await place.FailSendAsync(1, "one");

        Assert.Contains("4711", error.Message, StringComparison.Ordinal);
        Assert.Contains("4711", await place.Transport.FindFaultAsync(TestContext.Current.CancellationToken), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_send_that_is_cancelled_says_so_and_loses_nothing()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.RetrySendAsync(1, "one");
        using var cancelling = new CancellationTokenSource();

        await WhileProducersAreLockedAsync(place, async () =>
        {
            var sending = place.Transport.SendAsync(new[] { place.Batch("tasks", 2, "two") }, cancelling.Token).AsTask();
            await place.WaitForLockedAsync();
            await cancelling.CancelAsync();
            return await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        });

        await SucceedAsync(place);
    }

    private static async Task SucceedAsync(SendingPlace place)
    {
        await place.RetrySendAsync(2, "two");
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    private static async Task<T> WhileProducersAreLockedAsync<T>(SendingPlace place, Func<Task<T>> act)
    {
        await using var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await LockProducersAsync(rival, place);
        return await act();
    }

    private static Task LockProducersAsync(NpgsqlConnection connection, SendingPlace place) => ExecuteAsync(connection, $"select from {place.Schema.Quoted}.producers for update");

    private static async Task ExecuteAsync(NpgsqlConnection connection, string sql)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
    }
}
