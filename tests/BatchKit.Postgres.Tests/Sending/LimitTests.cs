using System.Globalization;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>One below, at and above each limit of the tables, the statements and the claims.</summary>
public sealed class LimitTests(PostgresFixture postgres)
{
    private const int MaxStatementBytes = 4096;
    private const long MaxDelayMilliseconds = 36_500L * 24 * 60 * 60 * 1000;

    [Theory]
    [InlineData("x", 62)]
    [InlineData("x", 63)]
    [InlineData("ö", 62)]
    public async Task A_schemas_name_has_up_to_63_bytes(string character, int bytes)
    {
        var name = string.Concat(Enumerable.Repeat(character, 10)) + Guid.NewGuid().ToString("n");
        name += new string('y', bytes - System.Text.Encoding.UTF8.GetByteCount(name));
        await using var place = SendingPlace.Make(TestSchema.On(await postgres.GetAsync(), name));

        await place.SendAsync(place.Batch("tasks", 1, "stored"));

        Assert.Equal(["stored"], await place.TextsAsync());
        var failure = Assert.Throws<OptionsValidationException>(() => new PostgresQueueTransport(place.Schema.DataSource, new PostgresOptions { Schema = name + new string('y', 64 - bytes) }));
        Assert.Contains("PostgresOptions.Schema has 64 UTF-8 bytes, more than 63", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_queues_name_and_a_uniqueness_key_have_up_to_1024_bytes_and_a_key_up_to_65_535()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        var error = await place.FailAsync(
            place.Batch(new string('n', 1023), 1, "name 1023"), place.Batch(new string('n', 1024), 2, "name 1024"), place.Batch(new string('n', 1025), 3, "name 1025"),
            place.Batch("tasks", 4, Unique("unique 1023", 1023)), place.Batch("tasks", 5, Unique("unique 1024", 1024)), place.Batch("tasks", 6, Unique("unique 1025", 1025)),
            place.Batch("tasks", 7, Keyed("key 65534", 65_534)), place.Batch("tasks", 8, Keyed("key 65535", 65_535)));

        Assert.Equal(["name 1023", "name 1024", "unique 1023", "unique 1024", "key 65534", "key 65535"], await place.TextsAsync());
        Assert.Equal([2, 5], Enumerable.Range(0, 8).Where(index => error.Outcomes[index] == BatchOutcome.Refused));
        Assert.Contains("has 1025 UTF-8 bytes, more than 1024", error.Message, StringComparison.Ordinal);

        static BatchMessage Unique(string text, int bytes) => Some.Message(text, new MessageHeader { Properties = [new(QueueMessageHeader.UniqueKeyProperty, new string('k', bytes))] });

        static BatchMessage Keyed(string text, int bytes) => Some.Message(text, new MessageHeader { Key = new string('k', bytes) });
    }

    [Fact]
    public async Task A_priority_and_a_delay_have_limits()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        (string Name, long Value)[] accepted =
        [
            (QueueMessageHeader.PriorityProperty, -short.MaxValue), (QueueMessageHeader.PriorityProperty, short.MaxValue - 1), (QueueMessageHeader.PriorityProperty, short.MaxValue),
            (QueueMessageHeader.DelayProperty, 0), (QueueMessageHeader.DelayProperty, MaxDelayMilliseconds - 1), (QueueMessageHeader.DelayProperty, MaxDelayMilliseconds),
        ];

        await place.SendAsync([.. accepted.Select((property, index) => place.Batch("tasks", index + 1, With(property)))]);
        var error = await place.FailAsync(
            place.Batch("tasks", 11, With((QueueMessageHeader.PriorityProperty, short.MaxValue + 1))), place.Batch("tasks", 12, With((QueueMessageHeader.PriorityProperty, short.MinValue))),
            place.Batch("tasks", 13, With((QueueMessageHeader.DelayProperty, -1))), place.Batch("tasks", 14, With((QueueMessageHeader.DelayProperty, MaxDelayMilliseconds + 1))));

        Assert.Equal(accepted.Length, (await place.RowsAsync()).Count);
        Assert.Equal(Enumerable.Repeat(BatchOutcome.Refused, 4), error.Outcomes);
        Assert.Contains($"from 0 to {MaxDelayMilliseconds}", error.Message, StringComparison.Ordinal);

        static BatchMessage With((string Name, long Value) property) =>
            Some.Message("x", new MessageHeader { Properties = [new(property.Name, property.Value.ToString(CultureInfo.InvariantCulture))] });
    }

    [Theory]
    [InlineData(-1, 1)]
    [InlineData(0, 1)]
    [InlineData(1, 2)]
    public async Task A_statement_has_up_to_MaxStatementBytes(int above, int statements)
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.MaxStatementBytes = MaxStatementBytes);

        await place.SendAsync(place.Batch("tasks", 1, new BatchMessage(new byte[3000])), place.Batch("tasks", 2, new BatchMessage(new byte[MaxStatementBytes - 3000 + above])));

        Assert.Equal(statements, await CountStatementsAsync(place));
    }

    [Theory]
    [InlineData(null)]
    [InlineData("frames")]
    public async Task A_batch_has_up_to_MaxStatementBytes_and_a_larger_one_is_refused_by_name(string? frameQueue)
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => (options.MaxStatementBytes, options.FrameQueue) = (MaxStatementBytes, frameQueue));
        var overhead = frameQueue is null ? 0 : FrameWriter.Measure([place.Batch("tasks", 1, new BatchMessage(new byte[4000]))]) - 4000;

        var error = await place.FailAsync([.. new[] { -1, 0, 1 }.Select((above, index) => place.Batch("tasks", index + 1, new BatchMessage(new byte[MaxStatementBytes - overhead + above])))]);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Acknowledged, BatchOutcome.Refused], error.Outcomes);
        Assert.Contains($"has {MaxStatementBytes + 1} bytes, more than MaxStatementBytes allows ({MaxStatementBytes})", error.Message, StringComparison.Ordinal);
        Assert.Equal(2, (await place.RowsAsync()).Count);
    }

    [Theory]
    [InlineData(19_999, 1)]
    [InlineData(20_000, 1)]
    [InlineData(20_001, 2)]
    public async Task A_statement_has_up_to_20_000_messages(int messages, int statements)
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        await place.SendAsync(place.Batch("tasks", 1, "first"), place.Batch("tasks", 2, Enumerable.Repeat("", messages - 1).ToArray()));

        Assert.Equal(statements, await CountStatementsAsync(place));
    }

    [Theory]
    [InlineData(9_999, 1)]
    [InlineData(10_000, 1)]
    [InlineData(10_001, 2)]
    public async Task A_statement_has_up_to_10_000_batches(int batches, int statements)
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        await place.SendAsync([.. Enumerable.Range(1, batches).Select(number => place.Batch("tasks", number, ""))]);

        Assert.Equal(statements, await CountStatementsAsync(place));
    }

    [Theory]
    [InlineData(2, 2, false)]
    [InlineData(3, 3, false)]
    [InlineData(4, 3, true)]
    public async Task A_claim_has_up_to_BatchSize_messages(int messages, int claimed, bool hasMore)
    {
        await using var scene = await ClaimScene.OpenAsync(postgres, static options => options.BatchSize = 3);
        await scene.InsertAsync(Some.Lines(messages));

        var claim = await scene.ClaimAsync();

        Assert.Equal((claimed, hasMore || messages == 3), (claim!.Batch.Count, claim.HasMore));
    }

    [Theory]
    [InlineData(4, 2)]
    [InlineData(5, 2)]
    [InlineData(6, 1)]
    public async Task A_claim_has_up_to_MaxBatchBytes(int bytes, int claimed)
    {
        await using var scene = await ClaimScene.OpenAsync(postgres, static options => options.MaxBatchBytes = 10);
        await scene.InsertAsync("12345", new string('x', bytes));

        Assert.Equal(claimed, (await scene.ClaimAsync())!.Batch.Count);
    }

    [Theory]
    [InlineData(ErrorText.MaxLength - 1, true)]
    [InlineData(ErrorText.MaxLength, true)]
    [InlineData(ErrorText.MaxLength + 1, false)]
    public void An_error_is_stored_with_up_to_4_000_characters_and_a_longer_one_shows_that_it_was_cut(int length, bool isWhole)
    {
        var stored = ErrorText.Of(new string('x', length));

        Assert.Equal(isWhole ? new string('x', length) : new string('x', ErrorText.MaxLength - 1) + "…", stored);
    }

    // Each statement is a transaction of its own.
    private static async Task<int> CountStatementsAsync(SendingPlace place) => (int)await place.Schema.ScalarAsync<long>("select count(distinct xmin::text) from {s}.messages");
}
