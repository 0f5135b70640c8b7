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

    private sealed class Picky : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
            throw new BatchSendException([BatchOutcome.Acknowledged], "The second is bad.", refusedMessages: [new MessageRefusal(0, 1)]);
    }
}
