using BatchKit.Testing;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>A commit that the sender never heard of is not made twice.</summary>
public sealed class LostCommitTests(PostgresFixture postgres)
{
    [Theory]
    [InlineData(null)]
    [InlineData("frames")]
    public async Task A_send_whose_commit_was_lost_to_view_is_stored_once(string? frameQueue)
    {
        await using var place = await SendingPlace.MakeOverProxyAsync(postgres, options => options.FrameQueue = frameQueue);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        MessageBatch[] batches = [place.Batch("tasks", 2, "two"), place.Batch("tasks", 3, "three")];
        Task sending;
        await using (var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken))
        await using (var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken))
        {
            await ExecuteAsync(rival, $"select from {place.Schema.Quoted}.producers for update");
            sending = place.Transport.SendAsync(batches, TestContext.Current.CancellationToken).AsTask();
            await place.WaitForLockedAsync();
            place.Proxy!.Stall();
        }

        // The server goes on and commits; its answer stays in the proxy.
        var rows = frameQueue is null ? 3 : 2;
        await WaitForRowsAsync(place, rows);
        place.Proxy.ResetAll();
        place.Proxy.Resume();
        // It tries again by itself, because its connection was a kept one.
        await sending.WithinDeadline();
        await place.SendAsync([.. batches, place.Batch("tasks", 4, "four")]);
        await place.SendAsync(batches);

        if (frameQueue is null)
            Assert.Equal(["one", "two", "three", "four"], await place.TextsAsync());
        else
            Assert.Equal([[1], [2, 3], [4]], (await place.RowsAsync()).Select(row => FrameNumbers(row.Payload)));
    }

    [Fact]
    public async Task A_send_that_meets_its_own_lost_transaction_still_open_waits_and_stores_only_what_that_has_not()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await using var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await ExecuteAsync(rival, $"update {place.Schema.Quoted}.producers set number = 2");
        await ExecuteAsync(rival, $"insert into {place.Schema.Quoted}.messages (queue, payload) select id, 'two' from {place.Schema.Quoted}.queues");

        var sending = place.SendAsync(place.Batch("tasks", 2, "two"), place.Batch("tasks", 3, "three"), place.Batch("tasks", 4, "four"));
        await place.WaitForLockedAsync();
        await transaction.CommitAsync(TestContext.Current.CancellationToken);
        await sending;

        Assert.Equal(["one", "two", "three", "four"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_send_that_meets_a_transaction_that_rolls_back_stores_all()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await using var rival = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await rival.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await ExecuteAsync(rival, $"update {place.Schema.Quoted}.producers set number = 3");

        var sending = place.SendAsync(place.Batch("tasks", 2, "two"), place.Batch("tasks", 3, "three"));
        await place.WaitForLockedAsync();
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);
        await sending;

        Assert.Equal(["one", "two", "three"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_producers_very_first_send_is_stored_once_too()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var batch = place.Batch("tasks", 1, "one");

        await Task.WhenAll(Enumerable.Range(0, 8).Select(_ => place.SendAsync(batch)));

        Assert.Equal(["one"], await place.TextsAsync());
    }

    [Fact]
    public async Task Random_repeats_of_random_runs_store_each_batch_once_and_in_order()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.MaxStatementBytes = 4096);
        var random = new Random(4711);
        var batches = Enumerable.Range(1, 200).Select(number => place.Batch($"queue {random.Next(3)}", number, [.. Enumerable.Range(0, random.Next(1, 4)).Select(
            place => Some.Message($"{number:d3} {place}".PadRight(random.Next(5, 1000)), random.Next(4) == 0 ? QueueMessageHeader.Create(priority: random.Next(9)) : null))])).ToArray();
        var reached = 0;
        while (reached < batches.Length)
        {
            var start = random.Next(Math.Max(0, reached - 10), reached + 1);
            var end = Math.Min(batches.Length, Math.Max(reached, start) + random.Next(1, 12));
            await place.SendAsync(batches[start..end]);
            reached = end;
        }

        Assert.Equal(batches.SelectMany(batch => Enumerable.Range(0, batch.Count).Select(index => batch[index].Payload.ToArray())), (await place.RowsAsync()).Select(row => row.Payload));
    }

    [Fact]
    public async Task Producers_that_are_long_silent_are_forgotten_when_another_comes()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await place.Schema.ExecuteAsync("update {s}.producers set seen_at = now() - interval '31 days'");

        await place.SendAsync(Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), 1, "another's"));
        await place.SendAsync(place.Batch("tasks", 2, "back again"));

        Assert.Equal(["one", "another's", "back again"], await place.TextsAsync());
        Assert.Equal(2L, await place.Schema.ScalarAsync<long>("select count(*) from {s}.producers"));
    }

    private static long[] FrameNumbers(byte[] frame)
    {
        using var read = FrameReader.Read(frame);
        return [.. read.Batches.ToArray().Select(batch => batch.Number)];
    }

    private static async Task ExecuteAsync(NpgsqlConnection connection, string sql)
    {
        await using var command = new NpgsqlCommand(sql, connection);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
    }

    private static Task WaitForRowsAsync(SendingPlace place, int rows) =>
        Until.TrueAsync(async () => await place.Schema.ScalarAsync<long>("select count(*) from {s}.messages") >= rows);
}
