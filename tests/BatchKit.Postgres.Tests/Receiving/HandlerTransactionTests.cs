using System.Data;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Tests.Ordered;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>Batches that their handlers settle in transactions of their own.</summary>
public sealed class HandlerTransactionTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(100)]
    public async Task What_the_handler_writes_and_the_end_of_its_messages_are_committed_together(int prefetch)
    {
        await using var scene = await OpenAsync(
            static async (transaction, batch) =>
            {
                await batch.SettleAsync(transaction);
                // Twice is once.
                await batch.SettleAsync(transaction);
                await transaction.CommitAsync();
            },
            options => options.Prefetch = prefetch);
        await scene.Claims.InsertAsync("a", "b");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 2);

        Assert.Equal(["a", "b"], await WrittenAsync(scene.Claims));
        Assert.Equal((0, 0), (scene.Statistics.RetriedMessages, scene.Statistics.LostMessages));
        Assert.Equal(0, await LeftAsync(scene.Claims));
    }

    [Fact]
    public async Task A_transaction_that_is_rolled_back_leaves_its_messages_to_another_attempt()
    {
        await using var scene = await OpenAsync(static async (transaction, batch) =>
        {
            await batch.SettleAsync(transaction);
            if (batch[0].Attempt > 1)
                await transaction.CommitAsync();
        });
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics is { RetriedMessages: 1, CompletedMessages: 1 });

        Assert.Equal(["a"], await WrittenAsync(scene.Claims));
        Assert.Equal(0, await LeftAsync(scene.Claims));
    }

    [Fact]
    public async Task Messages_whose_last_attempt_is_rolled_back_are_dead_with_that_reason()
    {
        await using var scene = await OpenAsync(static (transaction, batch) => batch.SettleAsync(transaction), static options => options.MaxAttempts = 1);
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.BuriedMessages == 1);

        Assert.Equal([HandlerTransaction.RolledBack], await scene.Claims.Schema.ColumnAsync<string>("select error from {s}.dead"));
        Assert.Empty(await WrittenAsync(scene.Claims));
    }

    [Fact]
    public async Task A_handler_that_fails_before_its_commit_gives_its_own_reason_and_one_that_fails_afterwards_has_completed_its_messages()
    {
        await using var scene = await OpenAsync(
            static async (transaction, batch) =>
            {
                await batch.SettleAsync(transaction);
                if (ClaimScene.TextOf(batch[0]) == "committed")
                    await transaction.CommitAsync();
                throw new IOException("The disk is full.");
            },
            static options => (options.MaxAttempts, options.BatchSize) = (1, 1));
        await scene.Claims.InsertAsync("committed", "not committed");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics is { CompletedMessages: 1, BuriedMessages: 1 });

        Assert.Equal(["committed"], await WrittenAsync(scene.Claims));
        Assert.Contains("The disk is full.", Assert.Single(await scene.Claims.Schema.ColumnAsync<string>("select error from {s}.dead")), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Marks_are_settled_in_the_transaction_too()
    {
        await using var scene = await OpenAsync(static async (transaction, batch) =>
        {
            if (batch.Count == 3)
            {
                batch[1].Retry("later");
                batch[2].Refuse("never");
            }

            await batch.SettleAsync(transaction);
            await transaction.CommitAsync();
        });
        await scene.Claims.InsertAsync("done", "later", "never");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics is { CompletedMessages: 2, RetriedMessages: 1, BuriedMessages: 1 });

        Assert.Equal("never:1", await scene.Claims.DeadAsync());
        Assert.Equal(string.Empty, await scene.Claims.WaitingAsync());
    }

    [Fact]
    public async Task A_process_that_ends_behind_the_commit_leaves_nothing_to_do_again()
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertUniqueAsync("a", "key");
        var claim = (await claims.ClaimAsync())!;
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();

        await using (var transaction = await connection.BeginTransactionAsync())
        {
            await claim.Readable!.SettleAsync(transaction);
            await transaction.CommitAsync();
        }

        await claims.EndClaimsAsync();
        var report = await claims.UpkeepAsync();

        Assert.Equal((0, 0), (report.Returned, report.Buried));
        Assert.Equal(0, await LeftAsync(claims) + await claims.CountAsync("unique_keys"));
    }

    /// <summary>After a fail-over to a standby that lagged, the server gives the numbers of transactions again.</summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_transaction_whose_number_the_server_has_not_given_yet_is_lost(bool isClaimLost)
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        claim.Transaction = new HandlerTransaction((ulong)await claims.Schema.ScalarAsync<long>("select pg_current_xact_id()::text::bigint") + 1_000_000, [MessageOutcome.Done]);
        if (isClaimLost)
            await claims.Schema.ExecuteAsync("delete from {s}.claims");

        Assert.Equal(isClaimLost ? [claim] : [], await claims.SettleAsync(claim));
        Assert.Equal(isClaimLost ? string.Empty : "a:1~", await claims.WaitingAsync());
    }

    [Fact]
    public async Task An_open_transaction_keeps_its_claim_beyond_the_time_limit_and_holds_up_neither_renewal_nor_upkeep()
    {
        await using var claims = await ClaimScene.OpenAsync(fixture, static options => options.BatchSize = 1);
        await claims.InsertAsync("own", "other");
        var (own, other) = ((await claims.ClaimAsync())!, (await claims.ClaimAsync())!);
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();
        await claims.EndClaimsAsync();
        await own.Readable!.SettleAsync(transaction);

        Assert.Empty(await claims.Store.RenewAsync(claims.Connection, [own, other], CancellationToken.None).WithinDeadline());
        Assert.Equal(0, (await claims.UpkeepAsync().WithinDeadline()).Returned);
        Assert.Equal([own], await claims.SettleAsync(own, other).WithinDeadline());
        await transaction.RollbackAsync();

        Assert.Equal(1, (await claims.UpkeepAsync()).Returned);
        Assert.Equal("own:1~", await claims.WaitingAsync());
    }

    [Fact]
    public async Task A_handler_that_leaves_its_transaction_open_holds_up_no_other_message()
    {
        var left = new TaskCompletionSource<NpgsqlTransaction>(TaskCreationOptions.RunContinuationsAsynchronously);
        await using var scene = await OpenAsync(
            async (transaction, batch) =>
            {
                await batch.SettleAsync(transaction);
                if (ClaimScene.TextOf(batch[0]) == "left")
                    left.SetResult(transaction);
                else
                    await transaction.CommitAsync();
            },
            static options => (options.BatchSize, options.Concurrency) = (1, 1),
            transaction => !left.Task.IsCompleted || left.Task.Result != transaction);
        await scene.Claims.InsertAsync("left", "other");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics is { CompletedMessages: 1, LostMessages: 1 });
        await using (var open = (await left.Task).Connection!)
            await (await left.Task).CommitAsync();

        Assert.Equal(["left", "other"], await WrittenAsync(scene.Claims));
        Assert.Equal(0, await LeftAsync(scene.Claims));
    }

    [Fact]
    public async Task A_batch_may_be_settled_again_in_another_transaction_after_a_rollback()
    {
        await using var scene = await OpenAsync(static async (transaction, batch) =>
        {
            var connection = transaction.Connection!;
            await batch.SettleAsync(transaction);
            await transaction.RollbackAsync();
            await using var second = await connection.BeginTransactionAsync();
            await batch.SettleAsync(second);
            await second.CommitAsync();
        });
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1);

        Assert.Equal((0, 0), (scene.Statistics.RetriedMessages, scene.Statistics.LostMessages));
        Assert.Equal(0, await LeftAsync(scene.Claims));
    }

    [Fact]
    public async Task A_claim_that_has_ended_settles_nothing_and_says_so()
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        await claims.EndClaimsAsync();
        await claims.UpkeepAsync();
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();

        var fault = await Assert.ThrowsAsync<InvalidOperationException>(() => claim.Readable!.SettleAsync(transaction));

        Assert.Contains(nameof(PostgresQueueReceiverOptions.ClaimTimeLimit), fault.Message, StringComparison.Ordinal);
        Assert.Null(claim.Transaction);
    }

    [Theory]
    [InlineData(IsolationLevel.RepeatableRead)]
    [InlineData(IsolationLevel.Serializable)]
    public async Task With_a_fixed_snapshot_a_claim_is_settled_first_and_renewals_do_not_matter(IsolationLevel isolation)
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync(isolation);

        await claim.Readable!.SettleAsync(transaction);
        Assert.Empty(await claims.Store.RenewAsync(claims.Connection, [claim], CancellationToken.None).WithinDeadline());
        await ReadAsync(connection, transaction);
        await transaction.CommitAsync();

        Assert.Equal(0, await LeftAsync(claims));
    }

    [Theory]
    [InlineData(IsolationLevel.RepeatableRead)]
    [InlineData(IsolationLevel.Serializable)]
    public async Task With_a_fixed_snapshot_a_claim_that_was_renewed_since_is_not_settled_and_the_error_says_what_to_do(IsolationLevel isolation)
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync(isolation);

        await ReadAsync(connection, transaction);
        Assert.Empty(await claims.Store.RenewAsync(claims.Connection, [claim], CancellationToken.None));
        var fault = await Assert.ThrowsAsync<NpgsqlException>(() => claim.Readable!.SettleAsync(transaction));

        Assert.Contains($"call {nameof(QueueBatchExtensions.SettleAsync)} first", fault.Message, StringComparison.Ordinal);
        Assert.True(fault.IsTransient);
        Assert.Null(claim.Transaction);
    }

    [Fact]
    public async Task What_is_no_batch_of_a_handler_or_no_open_transaction_is_refused()
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();

        await Assert.ThrowsAsync<ArgumentException>(() => claim.Readable!.ToArray().SettleAsync(transaction));
        await transaction.CommitAsync();
        await Assert.ThrowsAsync<InvalidOperationException>(() => claim.Readable!.SettleAsync(transaction));
    }

    [Fact]
    public async Task An_ordered_queue_says_that_it_can_not()
    {
        await using var queue = await OrderedQueue.OpenAsync(await fixture.GetAsync());
        await queue.AddAsync("key:a");
        var claim = (await queue.TakeAsync())!;
        await using var connection = await queue.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();

        var fault = await Assert.ThrowsAsync<NotSupportedException>(() => claim.Readable!.SettleAsync(transaction));

        Assert.Contains(nameof(PostgresQueueReceiverOptions.Shards), fault.Message, StringComparison.Ordinal);
    }

    /// <summary>A receiver whose handler writes its messages into a table, in a transaction that it then passes on, and rolls back if that has not ended it.</summary>
    /// <param name="end">Settles the batch and ends the transaction.</param>
    /// <param name="configure">Sets what differs.</param>
    /// <param name="isDisposed">Whether the transaction is disposed when the handler ends; all are when null.</param>
    private async Task<ReceiverScene> OpenAsync(
        Func<NpgsqlTransaction, IReadOnlyList<QueueMessage>, Task> end, Action<PostgresQueueReceiverOptions>? configure = null, Func<NpgsqlTransaction, bool>? isDisposed = null)
    {
        ReceiverScene? scene = null;
        scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(async (batch, cancellationToken) =>
        {
            var schema = scene!.Claims.Schema;
            var connection = await schema.DataSource.OpenConnectionAsync(cancellationToken);
            var transaction = await connection.BeginTransactionAsync(cancellationToken);
            try
            {
                foreach (var message in batch)
                {
                    await using var command = new NpgsqlCommand($"insert into {schema.Quoted}.written values ($1)", connection, transaction) { Parameters = { new() { Value = ClaimScene.TextOf(message) } } };
                    await command.ExecuteNonQueryAsync(cancellationToken);
                }

                await end(transaction, batch);
            }
            finally
            {
                if (isDisposed?.Invoke(transaction) ?? true)
                    await connection.DisposeAsync();
            }
        }), configure);
        await scene.Claims.Schema.ExecuteAsync("create table {s}.written (text text)");
        return scene;
    }

    private static async Task ReadAsync(NpgsqlConnection connection, NpgsqlTransaction transaction)
    {
        await using var command = new NpgsqlCommand("select 1", connection, transaction);
        await command.ExecuteNonQueryAsync();
    }

    private static Task<List<string>> WrittenAsync(ClaimScene claims) => claims.Schema.ColumnAsync<string>("select text from {s}.written order by text");

    private static async Task<long> LeftAsync(ClaimScene claims) => await claims.CountAsync("messages") + await claims.CountAsync("claims") + await claims.CountAsync("dead");
}
