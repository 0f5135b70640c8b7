using System.Text;
using BatchKit.IntegrationTests.Handlers;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Handlers of a queue in PostgreSQL.</summary>
public sealed class PostgresHandlerTests(PostgresFixture fixture) : HandlerSpecification
{
    [Fact]
    public async Task A_handler_of_queue_messages_sees_attempts_and_retries_one_message()
    {
        await using var scene = await HandlerScene.StartAsync(async () => new QueuePath(await fixture.NewSchemaAsync(), static (builder, queue, configure) =>
            builder.ReceiveFromPostgres<AttemptHandler>(queue, configure)));

        await scene.SendAsync("a", "again");

        await scene.Journal.WaitForAsync(3);
        Assert.Equal(["a 1", "again 1", "again 2"], scene.Journal.Texts.Order(StringComparer.Ordinal));
    }

    private protected override async Task<HandlerPath> ConnectAsync() => new QueuePath(
        await fixture.NewSchemaAsync(), static (builder, queue, configure) => builder.ReceiveFromPostgres<JournalHandler>(queue, configure));

    private sealed class QueuePath(TestSchema schema, Action<BatchKitBuilder, string, Action<PostgresQueueReceiverOptions>> receive) : HandlerPath
    {
        public override OutputHandle Destination { get; } = OutputHandle.Named("readings");

        public override void AddSender(BatchKitBuilder builder)
        {
            builder.Services.AddSingleton(schema.DataSource);
            builder.UsePostgres(options => options.Schema = schema.Name);
        }

        public override void AddReceiver(BatchKitBuilder builder)
        {
            builder.Services.AddSingleton(schema.DataSource);
            receive(builder, Destination.Name!, options => (options.Schema, options.RetryDelay, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(10), TimeSpan.FromMilliseconds(50)));
        }

        public override Task<long> CountRefusedAsync(IServiceProvider services) => schema.ScalarAsync<long>("select count(*) from {s}.dead where error = 'It is bad.'");

        public override ValueTask DisposeAsync() => schema.DisposeAsync();
    }

    private sealed class AttemptHandler(Journal journal, Visit visit) : IMessageHandler<QueueMessage>
    {
        public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
        {
            journal.Handle([.. batch.Select(static message => new ReceivedMessage(message.Handle, Some.Bytes($"{Encoding.UTF8.GetString(message.Payload.Span)} {message.Attempt}")))], visit);
            foreach (var message in batch)
            {
                if (message.Attempt == 1 && message.Payload.Span.SequenceEqual("again"u8))
                    message.Retry("It is not time yet.", TimeSpan.Zero);
            }

            return ValueTask.CompletedTask;
        }
    }
}
