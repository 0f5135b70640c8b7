using System.Text;
using BatchKit.Postgres;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

public sealed class PostgresQueueReplayTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_replayed_message_wakes_a_receiver_that_would_not_look_for_long()
    {
        await using var schema = await fixture.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name);
        var rows = await QueueRows.CreateAsync(schema);
        await rows.BuryAsync(1_000_001, "again");
        var handler = new FirstMessage();
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = TimeSpan.FromMinutes(10) };
        var connection = new NpgsqlConnectionStringBuilder((await fixture.GetAsync()).ConnectionString) { ApplicationName = schema.Name };
        await using var dataSource = NpgsqlDataSource.Create(connection);
        await using var receiver = new PostgresQueueReceiver(dataSource, options, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await WaitForListenerAsync(schema);

        var replayed = await new PostgresQueueAdmin(schema.DataSource, schema.Name).ReplayAsync("tasks");
        var handled = await handler.Text.WithinDeadline();

        Assert.Equal((1, "again 1"), (replayed, handled));
    }

    private static Task WaitForListenerAsync(TestSchema schema) => Until.TrueAsync(async () =>
        await schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where application_name = '{schema.Name}' and query ilike 'listen %'") > 0);

    private sealed class FirstMessage : IMessageHandler<QueueMessage>
    {
        private readonly TaskCompletionSource<string> _text = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public Task<string> Text => _text.Task;

        public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
        {
            _text.TrySetResult($"{Encoding.UTF8.GetString(batch[0].Payload.Span)} {batch[0].Attempt}");
            return ValueTask.CompletedTask;
        }
    }
}
