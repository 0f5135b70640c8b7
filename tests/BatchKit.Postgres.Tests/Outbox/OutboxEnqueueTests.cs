using System.Collections.Immutable;
using System.Globalization;
using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Outbox;

/// <summary>What one enqueue may hold: many messages, large headers, many frames.</summary>
public sealed class OutboxEnqueueTests(PostgresFixture postgres)
{
    /// <summary>How many calls a loop makes: 2,000 unless this environment variable says otherwise.</summary>
    private const string CallsVariable = "BATCHKIT_TEST_ENQUEUES";

    private static readonly OutputHandle Room = OutputHandle.Named("room");

    private static int Calls => int.Parse(Environment.GetEnvironmentVariable(CallsVariable) ?? "2000", CultureInfo.InvariantCulture);

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task An_outbox_that_is_disposed_stores_nothing(bool hasTransaction)
    {
        await using var schema = await postgres.NewTablesAsync();
        var outbox = new PostgresOutbox(schema.DataSource, new CollectingTransport(), new PostgresOutboxOptions { Schema = schema.Name });
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(TestContext.Current.CancellationToken);

        await outbox.DisposeAsync();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => outbox.EnqueueAsync(Room, [Some.Message("late")], hasTransaction ? transaction : null, TestContext.Current.CancellationToken));
        await transaction.CommitAsync(TestContext.Current.CancellationToken);

        Assert.Equal(0, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task Many_small_messages_with_large_headers_are_split_and_arrive()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport(maxMessageBytes: 64 * 1024);
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, Options(schema));
        var messages = Enumerable.Range(0, 500).Select(number => Some.Message($"line {number}", Header($"{number}", bytes: 40_000))).ToArray();

        await outbox.EnqueueAsync(Room, messages, cancellationToken: TestContext.Current.CancellationToken);
        var largest = await schema.ScalarAsync<int>("select max(octet_length(payload)) from {s}.messages");
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await arrived.WaitForMessagesAsync(500);

        Assert.InRange(largest, 1, 8 * 1024 * 1024);
        Assert.Equal(Some.Lines(500), arrived.Texts);
        Assert.All(arrived.Batches, batch => Assert.Single(batch.Messages));
    }

    [Fact]
    public async Task A_message_whose_header_does_not_fit_is_refused_at_the_call()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var outbox = new PostgresOutbox(schema.DataSource, new CollectingTransport(maxMessageBytes: 1000), Options(schema));

        var error = await Assert.ThrowsAsync<ArgumentException>("messages", () => outbox.EnqueueAsync(Room, [Some.Message("x", Header("1", bytes: 1000))]));

        Assert.Contains("with its header, more than MaxMessageBytes (1000)", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_frame_has_no_more_batches_and_messages_than_a_reader_takes()
    {
        var message = Some.Message("x");

        var frames = EnqueuedFrames.Create(Room, [.. Enumerable.Repeat(message, 100_000)], maxMessageBytes: 8);

        Assert.InRange(frames.Length, 2, 100);
        Assert.Equal(100_000, frames.Sum(frame =>
        {
            using var read = FrameReader.Read(frame);
            return read.Batches.Span.ToArray().Sum(batch => batch.Count);
        }));
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task One_call_may_store_ten_thousand_frames_and_all_or_none_are_stored()
    {
        await using var schema = await postgres.NewTablesAsync();
        var queue = await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync("outbox", 1, TestContext.Current.CancellationToken);
        var insert = new OutboxInsert(new Tables(schema.Name), TimeSpan.FromMinutes(1));
        var frames = Enumerable.Range(0, 10_000).Select(number => Some.Bytes($"{number} {new string('x', 4096)}")).ToArray();
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);

        Assert.True(await insert.RunAsync(connection, transaction: null, queue, isFresh: false, frames, TestContext.Current.CancellationToken));
        await schema.ExecuteAsync("create function {s}.refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$");
        await schema.ExecuteAsync("create trigger refuse before insert on {s}.messages for each row when (new.payload like '9999 %'::bytea) execute function {s}.refuse()");
        await Assert.ThrowsAsync<PostgresException>(() => insert.RunAsync(connection, transaction: null, queue, isFresh: false, frames, TestContext.Current.CancellationToken));

        Assert.Equal(10_000L, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
        Assert.True(await schema.ScalarAsync<bool>("select bool_and(payload like ((id - 1)::text || ' %')::bytea) from {s}.messages"));
    }

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task Thousands_of_calls_in_a_loop_arrive_in_order()
    {
        var calls = Calls;
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, Options(schema));
        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();

        for (var line = 0; line < calls; line++)
            await outbox.EnqueueAsync(Room, [Some.Message($"line {line}")], cancellationToken: TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(calls);

        Assert.Equal(Some.Lines(calls), arrived.Texts);
    }

    [Fact]
    public async Task Calls_of_transactions_that_overlap_leave_in_the_order_in_which_they_stored()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, Options(schema));
        await using var first = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var second = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var earlier = await first.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using var later = await second.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await outbox.EnqueueAsync(Room, [Some.Message("stored first")], earlier, TestContext.Current.CancellationToken);
        await outbox.EnqueueAsync(Room, [Some.Message("committed first")], later, TestContext.Current.CancellationToken);
        await later.CommitAsync(TestContext.Current.CancellationToken);
        await earlier.CommitAsync(TestContext.Current.CancellationToken);

        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await arrived.WaitForMessagesAsync(2);

        Assert.Equal(["stored first", "committed first"], arrived.Texts);
    }

    [Fact]
    public async Task Failures_of_the_database_are_logged()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var log = new LogCollector();
        await using var nowhere = NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=no one;Timeout=1");
        await using var outbox = new PostgresOutbox(nowhere, new CollectingTransport(), Options(schema), logger: new Microsoft.Extensions.Logging.Logger<PostgresOutbox>(log));

        await outbox.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();

        await log.WaitForAsync(2621);
        Assert.NotNull(outbox.Fault);
    }

    private static PostgresOutboxOptions Options(TestSchema schema) => new() { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) };

    private static MessageHeader Header(string name, int bytes) => new()
    {
        Properties = ImmutableArray.Create(new KeyValuePair<string, string>(name, new string('x', Math.Min(bytes, MessageHeader.MaxTextBytes)))),
        ContentType = new string('y', Math.Clamp(bytes - MessageHeader.MaxTextBytes, 1, MessageHeader.MaxTextBytes)),
    };
}
