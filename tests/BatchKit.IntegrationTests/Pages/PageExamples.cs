using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>Code that readmes and docs show.</summary>
internal static class PageExamples
{
    public static void AddSigned(IServiceCollection services, IConfiguration configuration)
    {
        services.AddBatchKit(options =>
        {
            options.Node = 1;
            options.FrameKeys.Add(Convert.FromBase64String(configuration["FrameKey"]!)); // at least 32 random bytes
        });
    }

    public static void AddSection(IServiceCollection services, IConfiguration configuration, System.Security.Cryptography.X509Certificates.X509CertificateCollection certificates)
    {
        services.AddBatchKit(configuration.GetSection("BatchKit"))
            .UseRabbitMq(configuration.GetSection("BatchKit:RabbitMq"), options => options.ClientCertificates = certificates);
    }

    public static void MapPlayers(WebApplication app, BroadcastTransport transport, IOutputBuffer output)
    {
        app.MapBatchKitWebSockets("/play", transport, connection => new Player(connection, output), new WebSocketEndpointOptions { AllowedOrigins = { "https://play.example" } }, output);
    }

    public static void AddRabbitMqGame(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 1)
            .UseRabbitMq(options => options.Hosts = ["broker-1", "broker-2:5673"]);
    }

    public static void AddRabbitMqGateway(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 2)
            .UseRabbitMq(options => options.DestinationNode = 1) // players' input, all to the game
            .ReceiveFromRabbitMq(provider => provider.GetRequiredService<MySockets>());
    }

    public static void AddMassTransitInMemory(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 1)
            .UseMassTransit()
            .ReceiveFromMassTransit(provider => provider.GetRequiredService<MySockets>());
    }

    public static void AddMassTransitGame(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 1) // the game: output for players on other nodes
            .UseMassTransit(options => options.RabbitMq = new() { Hosts = ["broker-1", "broker-2:5673"] });
    }

    public static void AddMassTransitGateway(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 2) // a gateway
            .UseMassTransit(options =>
            {
                options.RabbitMq = new() { Hosts = ["broker-1", "broker-2:5673"] };
                options.DestinationNode = 1; // players' input, all to the game
            })
            .ReceiveFromMassTransit(provider => provider.GetRequiredService<MySockets>());
    }

    public static void AddOwnMassTransitBus(IServiceCollection services)
    {
        services.AddMassTransit(setup => setup.UsingInMemory()); // before AddBatchKit, so that the bus stops after the buffer has drained
        services.AddBatchKit(options => options.Node = 1)
            .UseMassTransit(options => options.Bus = provider => provider.GetRequiredService<IBus>())
            .ReceiveFromMassTransit(provider => provider.GetRequiredService<MySockets>());
    }

    public static void AddMqtt(IServiceCollection services)
    {
        services.AddBatchKit().UseMqtt(options => options.Server = new Uri("mqtts://broker.example.org"));
    }

    public static void Publish(IOutputBuffer output, IReadOnlyList<Change> changes)
    {
        using (output.BeginBufferingScope())
            foreach (var change in changes)
                output.Write(OutputHandle.Named($"world/room/{change.Room}/{change.Property}"), change.Value);
    }

    public static async Task PublishManyAsync(IMqttPublisher publisher, ReadOnlyMemory<MqttMessage> messages, ILogger logger, CancellationToken cancellationToken)
    {
        var report = await publisher.PublishManyAsync(messages, cancellationToken);
        if (!report.IsSuccess)
            for (var index = 0; index < report.Count; index++)
                if (!report[index].IsSuccess)
                    logger.LogWarning("{Topic}: {Reason}", messages.Span[index].Topic, report[index].Reason);
    }

    public static void AddPostgres(IServiceCollection services, string connectionString)
    {
        services.AddSingleton(NpgsqlDataSource.Create(connectionString));
        services.AddBatchKit().UsePostgres();
    }

    public static void AddPostgresPair(IServiceCollection services)
    {
        services.AddSingleton(NpgsqlDataSource.Create("Host=db1,db2;Username=game;Timeout=3"));
    }

    public static async Task EnqueueAsync(IOutputBuffer output, World world)
    {
        await using (output.BeginBufferingScope(OutputHandle.Named("npc")))
            foreach (var npc in world.Npcs)
                output.Write(OutputHandle.Named("npc"), npc.NextMove);
    }

    public static void AddOutbox(IServiceCollection services, RabbitMqOptions rabbitMqOptions)
    {
        services.AddBatchKit().UsePostgresOutbox(_ => new RabbitMqTransport(rabbitMqOptions));
    }

    public static async Task StoreAsync(PostgresOutbox outbox, OutputHandle handle, byte[] payload, NpgsqlTransaction transaction, CancellationToken cancellationToken)
    {
        await outbox.EnqueueAsync(handle, [new BatchMessage(payload)], transaction, cancellationToken);
    }
}

internal sealed record Change(string Room, string Property, string Value);

internal sealed record Npc(string NextMove);

internal sealed record World(IReadOnlyList<Npc> Npcs);

/// <summary>The next hop of the examples: counts what comes, and hands it on where a test looks closer.</summary>
internal sealed class MySockets(IBatchTransport? next = null) : IBatchTransport
{
    private int _messages;

    public int Messages => Volatile.Read(ref _messages);

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
            Interlocked.Add(ref _messages, batch.Count);
        return next?.SendAsync(batches, cancellationToken) ?? default;
    }
}

/// <summary>A client of the examples: repeats what it says.</summary>
internal sealed class Player(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
            output.Write(connection.Handle, record.Payload.Span);
        return default;
    }
}
