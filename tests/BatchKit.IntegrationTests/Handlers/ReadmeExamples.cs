using System.Text;
using System.Text.Json.Serialization;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using Microsoft.Extensions.DependencyInjection;
using Npgsql;

namespace BatchKit.IntegrationTests.Handlers;

/// <summary>The receivers that the packages' readmes show.</summary>
internal static class ReadmeExamples
{
    public static void AddPostgres(IServiceCollection services, string connectionString)
    {
        services.AddSingleton(NpgsqlDataSource.Create(connectionString));
        services.AddBatchKit().ReceiveFromPostgres<NpcMoves>("npc");
    }

    public static void AddMqtt(IServiceCollection services) =>
        services.AddBatchKit().ReceiveFromMqtt<Sensors>(options =>
        {
            options.Server = new Uri("mqtt://localhost");
            options.Subscriptions.Add(new MqttSubscription { Filter = "sensors/#" });
        });

    public static void AddRabbitMq(IServiceCollection services) =>
        services.AddBatchKit(options => options.Node = 1).UseJson(GameJson.Default).ReceiveFromRabbitMq<GameInput>();

    public static void AddMassTransit(IServiceCollection services) =>
        services.AddBatchKit(options => options.Node = 1).UseJson(GameJson.Default).ReceiveFromMassTransit<GameInput>();
}

internal sealed class NpcMoves : IMessageHandler<QueueMessage>
{
    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            if (message.Payload.IsEmpty)
                message.Retry("The NPC was in a fight.", TimeSpan.FromSeconds(5));
        }

        return ValueTask.CompletedTask;
    }
}

internal sealed class Trades(NpgsqlDataSource database) : IMessageHandler<QueueMessage>
{
    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        await using var connection = await database.OpenConnectionAsync(cancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(cancellationToken);
        await batch.SettleAsync(transaction, cancellationToken);
        foreach (var message in batch)
            await StoreAsync(message, transaction, cancellationToken);

        await transaction.CommitAsync(cancellationToken);
    }

    private static async Task StoreAsync(QueueMessage trade, NpgsqlTransaction transaction, CancellationToken cancellationToken)
    {
        await using var command = new NpgsqlCommand("insert into trades values ($1)", transaction.Connection, transaction) { Parameters = { new() { Value = trade.Id } } };
        await command.ExecuteNonQueryAsync(cancellationToken);
    }
}

internal sealed class Sensors : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            Console.WriteLine($"{message.Handle.Name}: {Encoding.UTF8.GetString(message.Payload.Span)}");
        return ValueTask.CompletedTask;
    }
}

internal sealed record Command(string Text);

[JsonSerializable(typeof(Command))]
internal sealed partial class GameJson : JsonSerializerContext;

internal sealed class GameInput : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            if (message.TryRead<Command>(out var command))
                Console.WriteLine($"{message.Handle}: {command.Text}");
        }

        return ValueTask.CompletedTask;
    }
}
