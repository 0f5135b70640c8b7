using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Tests.Outbox;

/// <summary>Output for a group that leaves through an outbox reaches each node once, whatever the nodes' numbers are.</summary>
public sealed class OutboxGroupTests(PostgresFixture postgres)
{
    private const string Frames = "frames";
    private static readonly OutputHandle Group = OutputHandle.Named("group");

    [Theory]
    [InlineData(0, false)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    [InlineData(1, true)]
    [InlineData(OutputHandle.MaxNode, false)]
    [InlineData(OutputHandle.MaxNode, true)]
    public async Task What_is_enqueued_for_a_group_reaches_the_node_once(int node, bool usesLocal)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        using var host = Build(schema, node, usesLocal, arrived);
        await host.StartAsync(TestContext.Current.CancellationToken);

        await host.Services.GetRequiredKeyedService<PostgresOutbox>("").EnqueueAsync(Group, [Some.Message("enqueued")], cancellationToken: TestContext.Current.CancellationToken);
        await host.Services.GetRequiredKeyedService<PostgresOutbox>("").EnqueueAsync(
            OutputHandle.Connection(node, 7), [Some.Message("last")], cancellationToken: TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(OutputHandle.Connection(node, 7), 1);

        await host.StopAsync(TestContext.Current.CancellationToken);
        Assert.Equal(["enqueued"], arrived.TextsFor(Group));
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(0, true)]
    [InlineData(1, true)]
    public async Task What_a_buffer_writes_to_a_group_reaches_the_node_once(int node, bool usesLocal)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        using var host = Build(schema, node, usesLocal, arrived);
        await host.StartAsync(TestContext.Current.CancellationToken);
        var output = host.Services.GetRequiredService<IOutputBuffer>();
        var elsewhere = OutputHandle.Connection(node == 0 ? 1 : 0, 7);

        output.Write(Group, "written"u8);
        await output.FlushAsync(TestContext.Current.CancellationToken);
        output.Write(elsewhere, "last"u8);
        await arrived.WaitForMessagesAsync(elsewhere, 1);

        await host.StopAsync(TestContext.Current.CancellationToken);
        Assert.Equal(["written"], arrived.TextsFor(Group));
    }

    // One node whose outbox forwards to a queue of frames, which the node itself receives.
    private static IHost Build(TestSchema schema, int node, bool usesLocal, CollectingTransport arrived)
    {
        var host = Host.CreateApplicationBuilder();
        host.Logging.ClearProviders();
        host.Services.AddSingleton(schema.DataSource);
        host.Services.AddSingleton(arrived);
        host.Services.AddSingleton(new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, FrameQueue = Frames }));
        var builder = host.Services.AddBatchKit(options => options.Node = node);
        builder.UsePostgresOutbox(
            static services => services.GetRequiredService<PostgresQueueTransport>(), options => (options.Schema, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(100)));
        builder.ReceiveFromPostgres(
            Frames, static services => services.GetRequiredService<CollectingTransport>(), options => (options.Schema, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(100)));
        if (usesLocal)
            builder.UseLocal(static services => services.GetRequiredService<CollectingTransport>());
        return host.Build();
    }
}
