using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Outbox;

/// <summary>What the transport behind an outbox refuses in part is kept where an operator sees it.</summary>
public sealed class OutboxRefusalTests(PostgresFixture postgres)
{
    [Fact]
    public async Task A_row_of_which_a_message_is_refused_is_dead_with_the_reason()
    {
        await using var schema = await postgres.NewTablesAsync();
        await using var outbox = new PostgresOutbox(schema.DataSource, new Picky(), new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) });
        await outbox.StartAsync(CancellationToken.None).WithinDeadline();

        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("good"), Some.Message("bad")], cancellationToken: TestContext.Current.CancellationToken);

        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.dead where error like '%The second is bad.%'") == 1);
        Assert.Equal(0, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task A_row_with_which_the_transport_throws_holds_up_no_other_handle()
    {
        await using var schema = await postgres.NewTablesAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, new Throwing(arrived), new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(20) });
        foreach (var (handle, text) in new[] { ("room", "ok1"), ("hall", "bad"), ("room", "ok2") })
            await outbox.EnqueueAsync(OutputHandle.Named(handle), [Some.Message(text)], cancellationToken: TestContext.Current.CancellationToken);

        await outbox.StartAsync(CancellationToken.None).WithinDeadline();
        await arrived.WaitForMessagesAsync(2);
        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("ok3")], cancellationToken: TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(3);

        Assert.Equal(["ok1", "ok2", "ok3"], arrived.Texts);
        Assert.Contains("It is bad.", outbox.Degradation, StringComparison.Ordinal);
        Assert.Equal(1, await schema.ScalarAsync<long>("select count(*) from {s}.messages where payload like '%bad%'"));
    }

    private sealed class Throwing(CollectingTransport arrived) : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                if (batch.Payload.Span.SequenceEqual("bad"u8))
                    throw new IOException("It is bad.");
            }

            return arrived.SendAsync(batches, cancellationToken);
        }
    }

    private sealed class Picky : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
            throw new BatchSendException([BatchOutcome.Acknowledged], "The second is bad.", refusedMessages: [new MessageRefusal(0, 1)]);
    }
}
