using System.Collections.Immutable;
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
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Groups;

/// <summary>Groups over frames in PostgreSQL: each node has a queue of its own, and a group's output goes to all of them.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class PostgresFrameGroupTests(PostgresFixture fixture) : GroupSpecification
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new QueuePath(await fixture.NewSchemaAsync(), nodes);

    private sealed class QueuePath(TestSchema schema, int nodes) : IGroupPath
    {
        public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop)
        {
            builder.Services.AddSingleton(schema.DataSource);
            for (var other = 0; other < nodes; other++)
                PostgresQueues.AddRoute(builder, schema, other);
            builder.UseRouter(_ => new QueueRouter(node, nodes, builder.HasRoute(LocalFirstRouter.LocalRoute)));
            PostgresQueues.Receive(builder, schema, node, nextHop);
        }

        public Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node) =>
            Task.FromResult<(IBatchTransport, Func<BatchReceiverStatistics>)>((services.GetRequiredKeyedService<PostgresQueueTransport>(PostgresQueues.Name(node)), PostgresQueues.Statistics(services, node)));

        public ValueTask DisposeAsync() => schema.DisposeAsync();
    }

    /// <summary>A connection's output goes to the queue of its node, a group's to all queues and to this node's own connections.</summary>
    private sealed class QueueRouter(int node, int nodes, bool hasLocal) : IOutputRouter
    {
        private readonly ImmutableArray<string> _all = [.. Enumerable.Range(0, nodes).Select(PostgresQueues.Name), .. hasLocal ? [LocalFirstRouter.LocalRoute] : Array.Empty<string>()];

        public ImmutableArray<string> GetRoutes(OutputHandle handle) =>
            !handle.IsConnection ? _all : hasLocal && handle.Node == node ? [LocalFirstRouter.LocalRoute] : [PostgresQueues.Name(handle.Node)];
    }
}

/// <summary>A queue of frames for each node.</summary>
internal static class PostgresQueues
{
    public static string Name(int node) => $"node {node}";

    public static PostgresQueueTransport CreateTransport(TestSchema schema, int node) => new(schema.DataSource, new PostgresOptions { Schema = schema.Name, FrameQueue = Name(node) });

    public static void AddRoute(BatchKitBuilder builder, TestSchema schema, int node)
    {
        builder.Services.AddKeyedSingleton(Name(node), (_, _) => CreateTransport(schema, node));
        builder.AddRoute(Name(node), services => services.GetRequiredKeyedService<PostgresQueueTransport>(Name(node)));
    }

    public static void Receive(BatchKitBuilder builder, TestSchema schema, int node, IBatchTransport nextHop) =>
        builder.ReceiveFromPostgres(Name(node), _ => nextHop, options => (options.Schema, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(50)));

    /// <summary>A frame here has one batch.</summary>
    public static Func<BatchReceiverStatistics> Statistics(IServiceProvider services, int node)
    {
        var receiver = services.GetRequiredKeyedService<PostgresQueueReceiver>(Name(node));
        return () => new BatchReceiverStatistics { ReceivedBatches = receiver.GetStatistics().CompletedMessages };
    }
}

/// <summary>Groups over outboxes that forward to a broker: those of the nodes' own, and one that all nodes share.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public abstract class OutboxGroupSpecification(PostgresFixture fixture) : GroupSpecification
{
    private protected PostgresFixture Fixture => fixture;

    [Theory]
    [InlineData(2, false)]
    [InlineData(2, true)]
    [InlineData(3, false)]
    [InlineData(3, true)]
    public async Task Each_member_gets_what_is_enqueued_for_a_group_once_from_each_node(int nodes, bool usesLocal)
    {
        await using var path = await ConnectAsync(nodes);

        await AssertOnceAsync(path, nodes, usesLocal, static (writer, group, text) => ((PostgresOutbox)writer.Remote).EnqueueAsync(group, [Some.Message(text)]).WithinDeadline());
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Each_member_gets_a_groups_output_once_through_an_outbox_that_the_nodes_share(bool usesLocal)
    {
        await using var path = (OutboxPath)await ConnectAsync(3);
        path.IsShared = true;

        await AssertOnceAsync(path, nodes: 3, usesLocal);
    }
}

/// <summary>Groups over outboxes in front of RabbitMQ.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class RabbitMqOutboxGroupTests(PostgresFixture postgres, RabbitMqFixture fixture) : OutboxGroupSpecification(postgres)
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BrokerPath(await Fixture.NewSchemaAsync(), await fixture.GetAsync());

    private sealed class BrokerPath(TestSchema schema, RabbitMqServer server) : OutboxPath(schema)
    {
        private readonly string _prefix = Some.Name("groups");

        protected override void AddBroker(BatchKitBuilder sender, BatchKitBuilder receiver, int node, IBatchTransport nextHop)
        {
            sender.UseRabbitMq(Configure);
            receiver.ReceiveFromRabbitMq(_ => nextHop, Configure);
        }

        protected override IBatchTransport Inner(IServiceProvider services) => services.GetRequiredKeyedService<RabbitMqTransport>(Sender);

        protected override Task<Func<BatchReceiverStatistics>> ReadyAsync(IServiceProvider services, int node) =>
            Task.FromResult<Func<BatchReceiverStatistics>>(services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics);

        private void Configure(RabbitMqOptions options) => RabbitMqSome.Configure(options, server, server.Port, _prefix);
    }
}

/// <summary>Groups over outboxes in front of MassTransit on RabbitMQ.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class MassTransitOutboxGroupTests(PostgresFixture postgres, RabbitMqFixture fixture) : OutboxGroupSpecification(postgres)
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BrokerPath(await Fixture.NewSchemaAsync(), MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("groups")));

    private sealed class BrokerPath(TestSchema schema, Action<MassTransitOptions> configure) : OutboxPath(schema)
    {
        protected override void AddBroker(BatchKitBuilder sender, BatchKitBuilder receiver, int node, IBatchTransport nextHop)
        {
            sender.UseMassTransit(configure);
            receiver.ReceiveFromMassTransit(_ => nextHop, configure);
        }

        protected override IBatchTransport Inner(IServiceProvider services) => services.GetRequiredKeyedService<MassTransitTransport>(Sender);

        protected override async Task<Func<BatchReceiverStatistics>> ReadyAsync(IServiceProvider services, int node)
        {
            var receiver = services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty);
            await receiver.WaitUntilReadyAsync().WithinDeadline();
            return receiver.GetStatistics;
        }
    }
}

/// <summary>Groups over outboxes in front of MQTT, in envelope mode.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class MqttOutboxGroupTests(PostgresFixture postgres, MosquittoFixture fixture) : OutboxGroupSpecification(postgres)
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes) => new BrokerPath(await Fixture.NewSchemaAsync(), await fixture.GetAsync());

    private sealed class BrokerPath(TestSchema schema, MosquittoServer server) : OutboxPath(schema)
    {
        private readonly string _prefix = Some.Name("groups");

        protected override void AddBroker(BatchKitBuilder sender, BatchKitBuilder receiver, int node, IBatchTransport nextHop)
        {
            sender.UseMqtt(Configure);
            receiver.ReceiveFromMqtt(_ => nextHop, Configure);
        }

        protected override IBatchTransport Inner(IServiceProvider services) => services.GetRequiredKeyedService<MqttTransport>(Sender);

        protected override Task<Func<BatchReceiverStatistics>> ReadyAsync(IServiceProvider services, int node) =>
            Task.FromResult<Func<BatchReceiverStatistics>>(services.GetRequiredKeyedService<MqttReceiver>(string.Empty).GetStatistics);

        private void Configure(MqttOptions options)
        {
            MqttSome.Configure(options, server.Address);
            options.EnvelopePrefix = _prefix;
        }
    }
}

/// <summary>Groups over outboxes in front of frames in PostgreSQL, with a schema for each node: one schema remembers each producer's last number, whatever the queue.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class PostgresOutboxGroupTests(PostgresFixture postgres) : OutboxGroupSpecification(postgres)
{
    protected override async Task<IGroupPath> ConnectAsync(int nodes)
    {
        var schemas = new TestSchema[nodes];
        for (var node = 0; node < nodes; node++)
            schemas[node] = await Fixture.NewSchemaAsync();
        return new BrokerPath(await Fixture.NewSchemaAsync(), schemas);
    }

    private sealed class BrokerPath(TestSchema schema, TestSchema[] nodes) : OutboxPath(schema)
    {
        public override async ValueTask DisposeAsync()
        {
            await base.DisposeAsync();
            foreach (var node in nodes)
                await node.DisposeAsync();
        }

        protected override void AddBroker(BatchKitBuilder sender, BatchKitBuilder receiver, int node, IBatchTransport nextHop)
        {
            sender.Services.AddKeyedSingleton(Sender, (_, _) => new AllQueues([.. nodes.Select(PostgresQueues.CreateTransport)]));
            sender.AddRoute("queues", Inner);
            PostgresQueues.Receive(receiver, nodes[node], node, nextHop);
        }

        protected override IBatchTransport Inner(IServiceProvider services) => services.GetRequiredKeyedService<AllQueues>(Sender);

        protected override Task<Func<BatchReceiverStatistics>> ReadyAsync(IServiceProvider services, int node) => Task.FromResult(PostgresQueues.Statistics(services, node));
    }

    /// <summary>Sends a group's output to the queues of all nodes.</summary>
    private sealed class AllQueues(PostgresQueueTransport[] queues) : IBatchTransport, IAsyncDisposable
    {
        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var queue in queues)
                await queue.SendAsync(batches, cancellationToken);
        }

        public async ValueTask DisposeAsync()
        {
            foreach (var queue in queues)
                await queue.DisposeAsync();
        }
    }
}

/// <summary>Nodes whose output leaves through outboxes; a second buffer of each node has the transport that its outbox forwards to.</summary>
internal abstract class OutboxPath(TestSchema schema) : IGroupPath
{
    protected const string Sender = "sender";

    /// <summary>Whether all nodes have the same outbox, which one of them forwards.</summary>
    public bool IsShared { get; set; }

    protected TestSchema Schema => schema;

    public void Add(BatchKitBuilder builder, int node, IBatchTransport nextHop)
    {
        builder.Services.AddSingleton(schema.DataSource);
        AddBroker(builder.Services.AddBatchKit(Sender, options => options.Node = node), builder, node, nextHop);
        builder.UsePostgresOutbox(Inner, options =>
        {
            (options.Schema, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(50));
            options.Name = IsShared ? "outbox" : $"outbox {node}";
        });
    }

    public async Task<(IBatchTransport Remote, Func<BatchReceiverStatistics> Statistics)> StartedAsync(IServiceProvider services, int node) =>
        (services.GetRequiredKeyedService<PostgresOutbox>(string.Empty), await ReadyAsync(services, node));

    public virtual ValueTask DisposeAsync() => schema.DisposeAsync();

    protected abstract void AddBroker(BatchKitBuilder sender, BatchKitBuilder receiver, int node, IBatchTransport nextHop);

    protected abstract IBatchTransport Inner(IServiceProvider services);

    protected abstract Task<Func<BatchReceiverStatistics>> ReadyAsync(IServiceProvider services, int node);
}
