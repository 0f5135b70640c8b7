using System.Globalization;
using System.Transactions;
using BatchKit.Postgres.Schema;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>A caller's ambient transaction, culture and other context reach neither what a call stores nor a background loop.</summary>
public sealed class AmbientContextTests(PostgresFixture postgres)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");
    private static readonly AsyncLocal<string?> Local = new();

    [Fact]
    public async Task An_ambient_transaction_that_rolls_back_takes_nothing_of_an_outbox_along()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, OutboxOptions(schema));

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
            await outbox.EnqueueAsync(Room, [Some.Message("inside")], cancellationToken: TestContext.Current.CancellationToken).WithinDeadline();
        await outbox.EnqueueAsync(Room, [Some.Message("outside")], cancellationToken: TestContext.Current.CancellationToken).WithinDeadline();
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await arrived.WaitForMessagesAsync(2);

        Assert.Equal(["inside", "outside"], arrived.Texts);
    }

    [Fact]
    public async Task An_ambient_transaction_that_is_complete_but_not_disposed_does_not_fail_a_call()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var outbox = new PostgresOutbox(schema.DataSource, new CollectingTransport(), OutboxOptions(schema));

        using (var scope = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
        {
            scope.Complete();
            await outbox.EnqueueAsync(Room, [Some.Message("inside")], cancellationToken: TestContext.Current.CancellationToken).WithinDeadline();
        }

        Assert.Equal(1L, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task An_ambient_transaction_that_rolls_back_takes_no_send_and_no_schema_along()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var producer = Some.Producer();

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
        {
            await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
            await transport.SendAsync(new[] { Some.Batch(Room, producer, 1, "one") }, TestContext.Current.CancellationToken).WithinDeadline();
        }

        await transport.SendAsync(new[] { Some.Batch(Room, producer, 2, "two") }, TestContext.Current.CancellationToken).WithinDeadline();
        Assert.Equal(["one", "two"], await schema.ColumnAsync<string>("select convert_from(m.payload, 'UTF8') from {s}.messages m join {s}.queues q on q.id = m.queue order by m.id"));
    }

    [Fact]
    public async Task An_ambient_transaction_that_rolls_back_takes_no_repair_along()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('tasks')");
        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select id, 'one' from {s}.queues");

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
            Assert.Equal(1, await new PostgresQueueAdmin(schema.DataSource, schema.Name).PurgeAsync("tasks", TestContext.Current.CancellationToken));

        Assert.Equal(0L, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task A_queue_whose_transaction_did_not_commit_is_not_remembered()
    {
        await using var schema = await postgres.NewTablesAsync();
        // The server reports an error of the commit only after the new row.
        await schema.ExecuteAsync("create function {s}.refuse() returns trigger language plpgsql as $$ begin raise exception 'no commit'; end $$");
        await schema.ExecuteAsync("create constraint trigger refuse after insert on {s}.queues deferrable initially deferred for each row execute function {s}.refuse()");
        var directory = new QueueDirectory(schema.DataSource, new Tables(schema.Name));

        await Assert.ThrowsAsync<PostgresException>(() => directory.FindOrCreateAsync("tasks", 0, TestContext.Current.CancellationToken).AsTask());
        await schema.ExecuteAsync("drop trigger refuse on {s}.queues");
        var entry = await directory.FindOrCreateAsync("tasks", 0, TestContext.Current.CancellationToken);

        Assert.Equal([entry.Id], await schema.ColumnAsync<int>("select id from {s}.queues"));
    }

    [Fact]
    public async Task A_handler_sees_nothing_of_the_context_in_which_its_receiver_was_started()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var seen = new TaskCompletionSource<(string? Local, string NegativeSign, bool HasTransaction)>(TaskCreationOptions.RunContinuationsAsynchronously);
        var handler = new Receiving.ScriptedHandler((_, _) =>
        {
            seen.TrySetResult((Local.Value, CultureInfo.CurrentCulture.NumberFormat.NegativeSign, Transaction.Current is not null));
            return ValueTask.CompletedTask;
        });
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks" }, handler);

        await StartInContextAsync(receiver);
        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select id, 'one' from {s}.queues");

        Assert.Equal((null, "-", false), await seen.Task.WithinDeadline());
    }

    [Fact]
    public async Task An_outbox_that_was_started_in_an_ambient_transaction_forwards_after_its_end()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, OutboxOptions(schema));

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
            await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        for (var line = 0; line < 5; line++)
        {
            await outbox.EnqueueAsync(Room, [Some.Message($"line {line}")], cancellationToken: TestContext.Current.CancellationToken).WithinDeadline();
            await arrived.WaitForMessagesAsync(line + 1);
        }

        Assert.Equal(Some.Lines(5), arrived.Texts);
        Assert.Null(outbox.Fault);
    }

    private static async Task StartInContextAsync(PostgresQueueReceiver receiver)
    {
        Local.Value = "the caller's";
        var culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
        culture.NumberFormat.NegativeSign = "minus";
        CultureInfo.CurrentCulture = culture;
        using var scope = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
    }

    private static PostgresOutboxOptions OutboxOptions(TestSchema schema) => new() { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(100) };
}
