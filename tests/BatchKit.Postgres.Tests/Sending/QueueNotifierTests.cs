using System.Transactions;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>A queue is notified of at once, and then at most once an interval.</summary>
public sealed class QueueNotifierTests(PostgresFixture postgres)
{
    private static readonly TimeSpan Interval = TimeSpan.FromMilliseconds(50);
    private static readonly QueueEntry First = new(1, "first", 0);
    private static readonly QueueEntry Second = new(2, "second", 0);

    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public async Task The_first_goes_at_once_and_a_burst_behind_it_once_at_the_end_of_the_interval()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var notifier = Make(schema);

        notifier.Notify(First);
        Assert.Equal("1", await listener.NextAsync());
        for (var send = 0; send < 100; send++)
            notifier.Notify(First);
        await _clock.WaitForTimersAsync();
        _clock.Advance(Interval - TimeSpan.FromTicks(1));
        Assert.Empty(await listener.DrainAsync());
        _clock.Advance(TimeSpan.FromTicks(1));

        Assert.Equal("1", await listener.NextAsync());
        Assert.Empty(await listener.DrainAsync());
    }

    [Fact]
    public async Task A_rest_of_less_than_a_millisecond_is_waited_for_by_a_timer()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var notifier = Make(schema);
        notifier.Notify(First);
        Assert.Equal("1", await listener.NextAsync());

        _clock.Advance(Interval - TimeSpan.FromMilliseconds(0.5));
        notifier.Notify(First);
        await _clock.WaitForTimersAsync();
        _clock.Advance(TimeSpan.FromMilliseconds(1));

        Assert.Equal("1", await listener.NextAsync());
    }

    [Fact]
    public async Task A_turn_is_taken_once_an_interval_and_not_past_what_waits()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var notifier = Make(schema);

        Assert.Equal([1, 2], notifier.TakeTurns([First, Second, First]));
        Assert.Empty(notifier.TakeTurns([First, Second]));
        notifier.Notify(First);
        await _clock.WaitForTimersAsync();
        _clock.Advance(Interval);

        Assert.Equal("1", await listener.NextAsync());
        Assert.Equal([2], notifier.TakeTurns([First, Second]));
    }

    [Fact]
    public async Task A_new_producer_notifies_when_its_rows_are_stored()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("create function {s}.hold() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared('{s}.messages'::regclass::oid::bigint); return new; end $$");
        await schema.ExecuteAsync("create trigger hold before insert on {s}.messages for each row execute function {s}.hold()");
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var holder = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await holder.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var locking = new NpgsqlCommand($"select pg_advisory_xact_lock('{schema.Quoted}.messages'::regclass::oid::bigint)", holder))
            await locking.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, NotifyInterval = TimeSpan.FromMinutes(1) });

        var sending = transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "first") }, TestContext.Current.CancellationToken).AsTask();
        await Until.TrueAsync(() => schema.ScalarAsync<bool>("select exists (select from pg_locks where not granted and locktype = 'advisory' and objid = '{s}.messages'::regclass)"));
        var early = await listener.DrainAsync();
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);
        await sending;

        Assert.Empty(early);
        Assert.NotEmpty(await listener.NextAsync());
    }

    [Fact]
    public async Task After_a_pause_the_next_goes_at_once_again()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var notifier = Make(schema);

        for (var send = 0; send < 3; send++)
        {
            notifier.Notify(First);
            Assert.Equal("1", await listener.NextAsync());
            _clock.Advance(Interval);
        }
    }

    [Fact]
    public async Task Queues_do_not_wait_for_each_other()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        await using var notifier = Make(schema);

        notifier.Notify(First);
        Assert.Equal("1", await listener.NextAsync());
        notifier.Notify(First);
        await _clock.WaitForTimersAsync();
        _clock.Advance(Interval);
        notifier.Notify(Second);

        Assert.Equal(["1", "2"], new[] { await listener.NextAsync(), await listener.NextAsync() }.Order());
    }

    [Fact]
    public async Task What_waits_goes_out_at_the_end()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        var notifier = Make(schema);
        notifier.Notify(First);
        Assert.Equal("1", await listener.NextAsync());
        notifier.Notify(First);
        await _clock.WaitForTimersAsync();

        await notifier.DisposeAsync().WithinDeadline();
        notifier.Notify(Second);

        Assert.Equal(["1"], await listener.DrainAsync());
    }

    [Fact]
    public async Task A_server_that_cannot_be_reached_costs_the_notification_only()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        var address = new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Port = 1 };
        await using var nowhere = NpgsqlDataSource.Create(address);
        var notifier = new QueueNotifier(nowhere, new Tables(schema.Name), Interval, _clock);

        notifier.Notify(First);
        notifier.Notify(Second);
        await notifier.DisposeAsync().WithinDeadline();

        Assert.Empty(await listener.DrainAsync());
    }

    [Fact]
    public async Task A_notification_that_fails_is_sent_when_the_server_can_be_reached_again()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        var failures = 3;
        var builder = new NpgsqlDataSourceBuilder(schema.DataSource.ConnectionString);
        builder.UsePhysicalConnectionInitializer(static _ => { }, _ => failures-- > 0 ? throw new NotSupportedException("The credential provider is confused.") : Task.CompletedTask);
        await using var dataSource = builder.Build();
        var log = new LogCollector();
        await using var notifier = new QueueNotifier(dataSource, new Tables(schema.Name), Interval, TimeProvider.System, log.CreateLogger("notifier"));

        notifier.Notify(First);

        Assert.Equal("1", await listener.NextAsync());
        await log.WaitForAsync(2602);
        Assert.Equal((1, 1), (log.Count(2601), log.Count(2602)));
        Assert.Null(notifier.Fault);
    }

    [Fact]
    public async Task A_notifier_that_begins_in_an_ambient_transaction_goes_on_after_it_and_ends_without_an_error()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var listener = await ChannelListener.StartAsync(schema);
        var notifier = Make(schema);

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
        {
            notifier.Notify(First);
            Assert.Equal("1", await listener.NextAsync());
            notifier.Notify(First);
            await _clock.WaitForTimersAsync();
        }

        _clock.Advance(Interval);
        Assert.Equal("1", await listener.NextAsync());
        await notifier.DisposeAsync().WithinDeadline();
        Assert.Null(notifier.Fault);
    }

    [Fact]
    public async Task A_send_to_one_queue_notifies_it_once_however_many_messages_it_has()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.NotifyInterval = TimeSpan.FromMinutes(1));
        await using var listener = await ChannelListener.StartAsync(place.Schema);

        await place.SendAsync(place.Batch("a", 1, Some.Lines(500)), place.Batch("b", 2, Some.Lines(500)), place.Batch("a", 3, Some.Lines(500)));

        Assert.Equal(["1", "2"], new[] { await listener.NextAsync(), await listener.NextAsync() }.Order());
        Assert.Empty(await listener.DrainAsync());
    }

    [Fact]
    public async Task A_send_that_was_stored_before_notifies_again_when_its_interval_is_over()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.NotifyInterval = TimeSpan.FromMilliseconds(300));
        await using var listener = await ChannelListener.StartAsync(place.Schema);
        var batch = place.Batch("tasks", 1, "one");
        await place.SendAsync(batch);
        Assert.Equal("1", await listener.NextAsync());

        await place.SendAsync(batch);

        Assert.Equal("1", await listener.NextAsync());
    }

    private QueueNotifier Make(TestSchema schema) => new(schema.DataSource, new Tables(schema.Name), Interval, _clock);
}
