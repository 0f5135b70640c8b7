using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.OutboxWorker;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>An outbox's process and its broker are killed; the far receiver gets everything, in order, once.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class PostgresOutboxProcessTests(PostgresFixture fixture, OwnRabbitMqFixture broker) : IClassFixture<OwnRabbitMqFixture>
{
    private const int Lines = 2000;

    private static readonly OutputHandle Player = OutputHandle.Connection(OutboxWorkerSettings.Node, OutboxWorkerSettings.Connection);

    [Fact]
    public async Task What_was_stored_with_the_broker_dead_and_the_process_killed_arrives_once_and_in_order()
    {
        var server = await broker.GetAsync();
        await using var schema = await fixture.NewSchemaAsync();
        var options = RabbitMqSome.Options(server);
        var arrived = new CollectingTransport();
        await using var receiver = await RabbitMqEnds.StartAsync(options, arrived, OutboxWorkerSettings.Node);
        await server.SyncDeclarationsAsync();
        await server.KillAsync();

        using (var killed = OutboxWorkerProcess.Run(await SettingsAsync(schema, server, options, Lines)))
        {
            await killed.WaitUntilStoredAsync();
            killed.Kill();
            await killed.WaitForExitAsync();
        }

        using var next = OutboxWorkerProcess.Run(await SettingsAsync(schema, server, options, lines: 0));
        await next.WaitUntilWorkingAsync();
        await server.StartAsync();
        await arrived.WaitForMessagesAsync(Lines);
        await WaitUntilEmptyAsync(schema);

        Assert.Equal(Some.Lines(Lines), arrived.TextsFor(Player));
        Assert.Equal(Lines, arrived.MessageCount);
        next.Terminate();
        Assert.Equal(0, await next.WaitForExitAsync());
    }

    [Fact]
    public async Task Another_process_goes_on_where_a_killed_one_was()
    {
        var server = await broker.GetAsync();
        await using var schema = await fixture.NewSchemaAsync();
        var options = RabbitMqSome.Options(server);
        var arrived = new CollectingTransport();
        await using var receiver = await RabbitMqEnds.StartAsync(options, arrived, OutboxWorkerSettings.Node);
        using var killed = OutboxWorkerProcess.Run(await SettingsAsync(schema, server, options, lines: 1_000_000));
        await killed.WaitUntilWorkingAsync();
        using var next = OutboxWorkerProcess.Run(await SettingsAsync(schema, server, options, lines: 0));
        await next.WaitUntilWorkingAsync();

        await arrived.WaitForMessagesAsync(Lines);
        killed.Kill();
        await killed.WaitForExitAsync();
        await WaitUntilEmptyAsync(schema);
        var stored = await schema.ScalarAsync<long>("select sum(number)::bigint from {s}.producers");

        // A scope is a batch, and each batch that was committed has its number.
        await arrived.WaitForMessagesAsync(20 * stored);
        Assert.Equal(Some.Lines((int)(20 * stored)), arrived.TextsFor(Player));
        Assert.Equal(20 * stored, arrived.MessageCount);
    }

    private static Task WaitUntilEmptyAsync(TestSchema schema) => Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.messages") == 0);

    private async Task<OutboxWorkerSettings> SettingsAsync(TestSchema schema, RabbitMqServer server, RabbitMqOptions options, int lines) =>
        new((await fixture.GetAsync()).ConnectionString, schema.Name, new Uri($"amqp://{server.Address.UserInfo}@{server.Host}:{server.Port}{server.Address.AbsolutePath}"), options.Prefix, lines);
}
