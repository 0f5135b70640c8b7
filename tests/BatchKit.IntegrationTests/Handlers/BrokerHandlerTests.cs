using BatchKit.IntegrationTests.MassTransit;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Handlers;

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
            journal.Handle([.. batch.Select(static message => new ReceivedMessage(message.Handle, Some.Bytes($"{System.Text.Encoding.UTF8.GetString(message.Payload.Span)} {message.Attempt}")))], visit);
            foreach (var message in batch)
            {
                if (message.Attempt == 1 && message.Payload.Span.SequenceEqual("again"u8))
                    message.Retry("It is not time yet.", TimeSpan.Zero);
            }

            return ValueTask.CompletedTask;
        }
    }
}

/// <summary>Handlers of MQTT subscriptions.</summary>
public sealed class MqttHandlerTests(MosquittoFixture fixture) : HandlerSpecification
{
    [Fact]
    public async Task A_retained_message_says_so_and_a_live_one_does_not()
    {
        var path = new TopicPath(await fixture.GetAsync());
        await using (var publisher = new MqttTransport(path.Options()))
        {
            var kept = new MqttMessage(path.Destination.Name!, Some.Bytes("kept")) { Retain = true, ResponseTopic = "answers", CorrelationData = Some.Bytes("7") };
            Assert.True((await publisher.PublishManyAsync(new[] { kept }).WithinDeadline()).IsSuccess);
        }

        await using var scene = await HandlerScene.StartAsync(() => Task.FromResult<HandlerPath>(path));
        await scene.Journal.WaitForAsync(1);
        await scene.SendAsync("live");
        scene.Output.Write(path.Destination, ""u8, new MessageHeader { IsRetained = true });
        await scene.Journal.WaitForAsync(3);

        Assert.Equal(["kept: retained, answers, 7", "live: no header", ": no header"], path.Shown);
    }

    private protected override async Task<HandlerPath> ConnectAsync() => new TopicPath(await fixture.GetAsync());

    private sealed class TopicPath(MosquittoServer server) : HandlerPath
    {
        private readonly List<string> _shown = [];

        public override OutputHandle Destination { get; } = OutputHandle.Named(Some.Name("readings/cellar"));

        public IReadOnlyList<string> Shown => _shown;

        public MqttOptions Options() => MqttSome.Options(server);

        public override void AddSender(BatchKitBuilder builder) => builder.UseMqtt(options => MqttSome.Configure(options, server.Address));

        public override void AddReceiver(BatchKitBuilder builder) => builder.ReceiveFromMqtt<JournalHandler>(options =>
        {
            MqttSome.Configure(options, server.Address);
            options.Subscriptions.Add(new MqttSubscription { Filter = Destination.Name! });
        });

        public override Task ReadyAsync(IServiceProvider services)
        {
            services.GetRequiredService<Journal>().OnMessage = Show;
            return Until.TrueAsync(() => services.GetRequiredKeyedService<MqttReceiver>(string.Empty).Fault is null);
        }

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<MqttReceiver>(string.Empty).GetStatistics().RefusedMessages);

        private void Show(ReceivedMessage message) => _shown.Add(
            $"{System.Text.Encoding.UTF8.GetString(message.Payload.Span)}: "
            + (message.Header is { } header ? $"{(header.IsRetained ? "retained" : "live")}, {header.ReplyTo}, {System.Text.Encoding.UTF8.GetString(header.CorrelationData.AsSpan())}" : "no header"));
    }
}

/// <summary>Handlers of frames over RabbitMQ.</summary>
public sealed class RabbitMqHandlerTests(RabbitMqFixture fixture) : HandlerSpecification
{
    private protected override async Task<HandlerPath> ConnectAsync() => new NodePath(await fixture.GetAsync());

    private sealed class NodePath(RabbitMqServer server) : HandlerPath
    {
        private readonly string _prefix = Some.Name("handlers");

        public override OutputHandle Destination { get; } = OutputHandle.Connection(node: 2, 7);

        public override void AddSender(BatchKitBuilder builder) => builder.UseRabbitMq(Configure);

        public override void AddReceiver(BatchKitBuilder builder) => builder.ReceiveFromRabbitMq<JournalHandler>(Configure);

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics().RefusedMessages);

        private void Configure(RabbitMqOptions options) => RabbitMqSome.Configure(options, server, server.Port, _prefix);
    }
}

/// <summary>Handlers of frames over MassTransit on RabbitMQ.</summary>
public sealed class MassTransitHandlerTests(RabbitMqFixture fixture) : HandlerSpecification
{
    private protected override async Task<HandlerPath> ConnectAsync() => new BusHandlerPath(await fixture.GetAsync());

    private sealed class BusHandlerPath(RabbitMqServer server) : HandlerPath
    {
        private readonly Action<MassTransitOptions> _configure = MassTransitSome.Settings(server, Some.Name("handlers"));

        public override OutputHandle Destination { get; } = OutputHandle.Connection(node: 2, 7);

        public override void AddSender(BatchKitBuilder builder) => builder.UseMassTransit(_configure);

        public override void AddReceiver(BatchKitBuilder builder) => builder.ReceiveFromMassTransit<JournalHandler>(_configure);

        public override Task ReadyAsync(IServiceProvider services) => services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).WaitUntilReadyAsync();

        public override Task<long> CountRefusedAsync(IServiceProvider services) => Task.FromResult(services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).GetStatistics().RefusedMessages);
    }
}
