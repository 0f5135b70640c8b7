using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What the server refuses for a while is done later, or reported with its cause; nothing is lost.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class PostgresRefusalTests(OwnPostgresFixture fixture, ITestOutputHelper report) : IClassFixture<OwnPostgresFixture>
{
    private const int Messages = 500;

    /// <summary>Serialisation failure, deadlock, full disk, statement cancelled, read-only, too many connections, out of memory, no lock to be had.</summary>
    public static TheoryData<string> States => ["40001", "40P01", "53100", "57014", "25006", "53300", "53200", "55P03"];

    [Theory]
    [MemberData(nameof(States))]
    public async Task A_refused_insert_is_sent_again(string sqlState)
    {
        var schema = TestSchema.On(await fixture.GetAsync());
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        await using var failure = await InjectedFailure.InAsync(schema, "insert", "messages", sqlState);
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var batch = Some.Batch(OutputHandle.Named("way"), Some.Producer(), number: 1, "1", "2", "3");

        for (var time = 0; time < InjectedFailure.Times; time++)
        {
            var error = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(new[] { batch }, CancellationToken.None).AsTask().WithinDeadline());
            Assert.Equal(sqlState, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        }

        await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
        await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
        Assert.InRange(await failure.CountAsync(), InjectedFailure.Times + 1, long.MaxValue);
        Assert.Equal(3, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Theory]
    [MemberData(nameof(States))]
    public async Task A_refused_claim_is_made_again(string sqlState)
    {
        var (way, failure) = await StartAsync("insert", sqlState);
        await using (failure)
        await using (way)
        {
            await way.WriteAsync(Messages);
            await way.AssertNothingLostOrStoredTwiceAsync();
            await way.WaitUntilReceivingAsync();
            Assert.InRange(await failure.CountAsync(), InjectedFailure.Times + 1, long.MaxValue);
            Assert.Equal(Messages, way.Handled.Handlings);
        }
    }

    [Theory]
    [MemberData(nameof(States))]
    public async Task A_refused_settlement_is_made_again_and_nothing_is_handled_again(string sqlState)
    {
        var (way, failure) = await StartAsync("delete", sqlState);
        await using (failure)
        await using (way)
        {
            await way.WriteAsync(Messages);
            await way.AssertNothingLostOrStoredTwiceAsync();
            await way.WaitUntilReceivingAsync();
            await WaitUntilCompletedAsync(way);
            Assert.InRange(await failure.CountAsync(), InjectedFailure.Times + 1, long.MaxValue);
            Assert.Equal(Messages, way.Handled.Handlings);
        }
    }

    [Fact]
    public async Task Statements_that_take_too_long_are_named_and_made_again()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var way = await QueueWay.StartAsync(server, schema.Name);
        await way.WriteAsync(Messages);
        await way.Handled.WaitForCountAsync(Messages);
        await ConfigureAsync(schema, "statement_timeout", "100ms");
        try
        {
            await using var connection = await schema.DataSource.OpenConnectionAsync();
            Task written;
            await using (var transaction = await connection.BeginTransactionAsync())
            {
                await using var locking = new NpgsqlCommand($"set local statement_timeout = 0; lock table {schema.Quoted}.messages in access exclusive mode", connection, transaction);
                await locking.ExecuteNonQueryAsync();
                written = way.WriteAsync(Messages);
                await way.WaitForFaultAsync("57014");
                await way.WaitForFailedSendAsync();
            }

            await written.WithinDeadline();
            await way.AssertNothingLostOrStoredTwiceAsync();
        }
        finally
        {
            await ConfigureAsync(schema, "statement_timeout", value: null);
        }
    }

    [Fact]
    public async Task A_server_that_became_read_only_is_named_and_what_waits_is_done_when_it_writes_again()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var way = await QueueWay.StartAsync(server, schema.Name);
        await way.WriteAsync(Messages);
        await way.Handled.WaitForCountAsync(Messages);
        await ConfigureAsync(schema, "default_transaction_read_only", "on");
        Task written;
        try
        {
            written = way.WriteAsync(Messages);
            await way.WaitForFaultAsync("25006");
            await way.WaitForFailedSendAsync();
            await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
            var error = await Assert.ThrowsAsync<IOException>(
                () => transport.SendAsync(new[] { Some.Batch(way.Handle, Some.Producer(), number: 1, "0") }, CancellationToken.None).AsTask().WithinDeadline());
            Assert.Equal(PostgresErrorCodes.ReadOnlySqlTransaction, Assert.IsType<PostgresException>(error.InnerException).SqlState);
        }
        finally
        {
            await ConfigureAsync(schema, "default_transaction_read_only", value: null);
        }

        await written.WithinDeadline();
        await way.AssertNothingLostOrStoredTwiceAsync();
        await way.WaitUntilReceivingAsync();
    }

    [Fact]
    public async Task Senders_of_the_same_uniqueness_keys_in_opposite_orders_both_come_through()
    {
        var server = await fixture.GetAsync();
        await using var schema = TestSchema.On(server);
        await using var one = await QueueWay.StartAsync(server, schema.Name, receiving => receiving.Queue = "idle");
        await using var other = await QueueWay.StartAsync(server, schema.Name, receiving => receiving.Queue = "idle");
        var handle = OutputHandle.Named("keys");
        var headers = Array.ConvertAll([.. Enumerable.Range(0, 200)], key => QueueMessageHeader.Create(uniqueKey: $"key {key}"));

        for (var round = 0; round < 20; round++)
        {
            await Task.WhenAll(Task.Run(() => WriteAsync(one, headers)), Task.Run(() => WriteAsync(other, headers.Reverse()))).WithinDeadline();
            await schema.ExecuteAsync("delete from {s}.messages; delete from {s}.unique_keys");
        }

        report.WriteLine($"{one.Output.GetStatistics().FailedSends + other.Output.GetStatistics().FailedSends} sends failed and were made again.");
        Assert.Equal((20 * 200, 20 * 200), (one.Output.GetStatistics().AcknowledgedMessages, other.Output.GetStatistics().AcknowledgedMessages));

        async Task WriteAsync(QueueWay way, IEnumerable<MessageHeader> headers)
        {
            await using var scope = way.Output.BeginBufferingScope(handle);
            foreach (var header in headers)
                way.Output.Write(handle, "0"u8, header);
        }
    }

    /// <summary>A way whose claims fail at the given kind of statement.</summary>
    private async Task<(QueueWay Way, InjectedFailure Failure)> StartAsync(string statement, string sqlState)
    {
        var server = await fixture.GetAsync();
        var schema = TestSchema.On(server);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        var failure = await InjectedFailure.InAsync(schema, statement, "claims", sqlState);
        // Long claims, so that only what is made again in time is handled once.
        var way = await QueueWay.StartAsync(server, schema.Name, receiving => receiving.ClaimTimeLimit = TimeSpan.FromMinutes(5));
        return (way, failure);
    }

    private static Task WaitUntilCompletedAsync(QueueWay way) => Until.TrueAsync(() => way.Receiver.GetStatistics().CompletedMessages >= way.Written);

    /// <summary>Sets what all sessions have from now on, the open ones too; null sets it back.</summary>
    private static async Task ConfigureAsync(TestSchema schema, string setting, string? value)
    {
        // Neither a statement with others nor in a transaction. A time-out that is set back must not end this: it writes to the disk.
        await using var connection = await schema.DataSource.OpenConnectionAsync();
        foreach (var sql in (string[])["set statement_timeout = 0", value is null ? $"alter system reset {setting}" : $"alter system set {setting} = '{value}'", "select pg_reload_conf()"])
        {
            await using var command = new NpgsqlCommand(sql, connection);
            await command.ExecuteNonQueryAsync();
        }

        await Until.TrueAsync(async () =>
        {
            await using var show = new NpgsqlCommand($"select reset_val || coalesce(unit, '') = coalesce($1, boot_val || coalesce(unit, '')) from pg_settings where name = '{setting}'", connection);
            show.Parameters.Add(new NpgsqlParameter<string?> { TypedValue = value, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Text });
            return await show.ExecuteScalarAsync() is true;
        });
    }
}
