using BatchKit.Testing;
using Npgsql;

namespace BatchKit.Postgres.Tests.Outbox;

/// <summary>A pool that is too small, and rights that are taken away: the outbox says so, and loses nothing.</summary>
public sealed class OutboxSurroundingsTests(PostgresFixture postgres)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    [Fact]
    public async Task On_a_pool_of_one_connection_it_says_how_many_it_needs()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var pool = NpgsqlDataSource.Create($"{schema.DataSource.ConnectionString};Maximum Pool Size=1;Timeout=1");
        await using var outbox = new PostgresOutbox(pool, new CollectingTransport(), new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) });

        await outbox.StartAsync(CancellationToken.None).WithinDeadline();

        await Until.TrueAsync(() => (outbox.Fault ?? outbox.Degradation)?.Contains("needs 3", StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task Rights_that_are_taken_away_are_a_fault_that_names_them_until_they_are_back()
    {
        await using var schema = await postgres.NewTablesAsync();
        var user = schema.Name;
        await using var dataSource = await schema.OpenAsOwnRoleAsync();
        var arrived = new CollectingTransport();
        var outbox = new PostgresOutbox(dataSource, arrived, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) });
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();
        await outbox.EnqueueAsync(Room, [Some.Message("line 0")], cancellationToken: TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(1);

        await schema.ExecuteAsync($"revoke all on {{s}}.messages from {user}");
        var error = await Assert.ThrowsAsync<PostgresException>(() => outbox.EnqueueAsync(Room, [Some.Message("refused")], cancellationToken: TestContext.Current.CancellationToken));
        await Until.TrueAsync(() => outbox.Fault?.Contains("permission denied for table messages", StringComparison.Ordinal) == true);
        await schema.ExecuteAsync($"grant all on {{s}}.messages to {user}");
        await outbox.EnqueueAsync(Room, [Some.Message("line 1")], cancellationToken: TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(2);
        await Until.TrueAsync(() => outbox.Fault is null);

        await outbox.DisposeAsync();
        await schema.ExecuteAsync($"drop owned by {user}; drop role {user}");
        Assert.Contains("permission denied for table messages", error.MessageText, StringComparison.Ordinal);
        Assert.Equal(Some.Lines(2), arrived.Texts);
    }
}
