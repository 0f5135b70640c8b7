using BatchKit.Postgres;
using BatchKit.Testing;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What many workers held that crashed together.</summary>
public sealed class CrashedFleetTests(PostgresFixture fixture)
{
    private const int Claims = 200;

    // Longer than any wait of a test, so that all must come back in one go.
    private static readonly TimeSpan NoPoll = TimeSpan.FromMinutes(5);

    [Fact]
    public async Task All_claims_that_ended_come_back_without_waiting_for_further_polls()
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using (var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name }))
        {
            var batch = Some.Batch(OutputHandle.Named("tasks"), Some.Producer(), number: 1, [.. Enumerable.Range(0, Claims).Select(number => $"{number}")]);
            await transport.SendAsync(new[] { batch }, CancellationToken.None).WithinDeadline();
        }

        await schema.ExecuteAsync("""
            insert into {s}.claims (token, queue, until, worker, attempts, ids, ranks, enqueued_at, payloads)
            select id, queue, now() - interval '1 s', 'gone', 0, array[id], array[rank], array[enqueued_at], array[payload] from {s}.messages;
            delete from {s}.messages
            """);
        var handler = new NumberedHandler();
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = NoPoll }, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        await handler.WaitForCountAsync(Claims);

        Assert.Equal(Claims, handler.Handlings);
    }
}
