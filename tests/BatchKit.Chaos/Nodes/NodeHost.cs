using BatchKit.Chaos.Histories;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Chaos.Nodes;

/// <summary>Builds the host of a process for each transport, as a user of BatchKit does, with shorter time limits than the defaults so that a fault meets more of them.</summary>
internal static class NodeHost
{
    public const string RabbitMq = "RabbitMQ";
    public const string MassTransit = "MassTransit";
    public const string Mqtt = "MQTT";
    public const string Postgres = "PostgreSQL";

    /// <summary>The name of the group, and of the queue.</summary>
    public const string Group = "group";

    private const string Queue = "tasks";
    private const int Shards = 4;

    private static readonly TimeSpan Heartbeat = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan SendLimit = TimeSpan.FromSeconds(3);

    public static IHost Build(NodeSettings settings, TimeProvider clock, ArrivalRecorder recorder)
    {
        var host = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        host.Services.AddLogging(logging => logging.AddSimpleConsole(console => (console.SingleLine, console.TimestampFormat) = (true, "HH:mm:ss.fff ")).SetMinimumLevel(LogLevel.Information));
        host.Services.AddSingleton(clock);
        var batchKit = host.Services.AddBatchKit(options =>
        {
            options.Node = settings.Node;
            // No fault lasts for as long: what is given up before the process stops is a fault of its own.
            options.DeliveryTimeout = TimeSpan.FromMinutes(30);
            options.MaxRetryDelay = TimeSpan.FromMilliseconds(500);
        });
        Add(batchKit, settings, recorder);
        return host.Build();
    }

    /// <summary>The handle of one of the settings' targets.</summary>
    public static OutputHandle HandleOf(NodeSettings settings, int target) => settings.Targets[target] switch
    {
        { IsForAnyNode: true } => OutputHandle.Named(Queue),
        { IsGroup: true } group => OutputHandle.Named(group.Name),
        var connection => OutputHandle.Connection(connection.Nodes[0], target + 1),
    };

    /// <summary>The header that a message for one of the settings' targets needs.</summary>
    public static MessageHeader? HeaderOf(NodeSettings settings, int target) => settings.Targets[target].IsForAnyNode ? new MessageHeader { Key = settings.Targets[target].Name } : null;

    /// <summary>The counters of a host's receiver, as <see cref="Ended"/> has them.</summary>
    public static IReadOnlyList<long> ReadInput(NodeSettings settings, IServiceProvider services) => settings.Transport switch
    {
        RabbitMq => Numbers(services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics()),
        MassTransit => Numbers(services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).GetStatistics()),
        Mqtt => Numbers(services.GetRequiredKeyedService<MqttReceiver>(string.Empty).GetStatistics()),
        _ => [],
    };

    /// <summary>Why the host's receiver does not receive; null when it does, or there is none.</summary>
    public static string? FindFault(NodeSettings settings, IServiceProvider services) => settings.Transport switch
    {
        RabbitMq => services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).Fault,
        MassTransit => services.GetRequiredKeyedService<MassTransitReceiver>(string.Empty).Fault,
        Mqtt => services.GetRequiredKeyedService<MqttReceiver>(string.Empty).Fault,
        _ => null,
    };

    private static void Add(BatchKitBuilder batchKit, NodeSettings settings, ArrivalRecorder recorder)
    {
        switch (settings.Transport)
        {
            case RabbitMq:
                batchKit.UseRabbitMq(options => Configure(options, settings)).ReceiveFromRabbitMq(_ => recorder);
                break;
            case MassTransit:
                batchKit.UseMassTransit(options => Configure(options, settings)).ReceiveFromMassTransit(_ => recorder);
                break;
            case Mqtt:
                batchKit.UseMqtt(options => Configure(options, settings)).ReceiveFromMqtt(_ => recorder);
                break;
            case Postgres:
                AddPostgres(batchKit, settings, recorder);
                break;
            default:
                throw new ArgumentException($"There is no transport {settings.Transport}.", nameof(settings));
        }
    }

    private static void Configure(RabbitMqOptions options, NodeSettings settings)
    {
        (options.Hosts, options.Prefix, options.WaitsForNode) = ([settings.Address], settings.Prefix, true);
        (options.Heartbeat, options.PublishTimeout, options.ConnectTimeout) = (Heartbeat, SendLimit, SendLimit);
        (options.MaxReconnectDelay, options.TopologyCheckInterval) = (TimeSpan.FromMilliseconds(500), TimeSpan.FromSeconds(1));
    }

    private static void Configure(MassTransitOptions options, NodeSettings settings)
    {
        (options.Prefix, options.PublishTimeout, options.TopologyCheckInterval) = (settings.Prefix, SendLimit, TimeSpan.FromSeconds(1));
        options.RabbitMq = new MassTransitRabbitMqOptions { Hosts = [settings.Address], Heartbeat = Heartbeat, ConnectTimeout = SendLimit, ReconnectDelay = TimeSpan.FromMilliseconds(100) };
    }

    private static void Configure(MqttOptions options, NodeSettings settings)
    {
        (options.Server, options.EnvelopePrefix, options.ClientId) = (new Uri(settings.Address), settings.Prefix, $"{settings.Prefix}-{settings.Name}");
        (options.KeepAlive, options.PublishTimeout, options.ConnectTimeout, options.MaxReconnectDelay) = (Heartbeat, SendLimit, SendLimit, TimeSpan.FromMilliseconds(500));
    }

    // Who writes does not work, and the other way round.
    private static void AddPostgres(BatchKitBuilder batchKit, NodeSettings settings, ArrivalRecorder recorder)
    {
        batchKit.Services.AddSingleton(NpgsqlDataSource.Create(settings.Address));
        batchKit.UsePostgres(options => (options.Schema, options.Shards, options.CommandTimeout) = (settings.Prefix, Shards, SendLimit));
        if (settings.Targets.Count > 0)
            return;
        batchKit.Services.AddPostgresQueueReceiver(Queue, _ => recorder, options =>
        {
            (options.Schema, options.Shards, options.CommandTimeout) = (settings.Prefix, Shards, SendLimit);
            // Being killed with a message again and again does not bury it.
            (options.ClaimTimeLimit, options.MaxAttempts, options.MaxReconnectDelay, options.ListenKeepAlive) = (TimeSpan.FromSeconds(2), 1000, TimeSpan.FromMilliseconds(500), TimeSpan.FromSeconds(1));
        });
    }

    private static long[] Numbers(BatchReceiverStatistics statistics) =>
    [
        statistics.ReceivedMessages, statistics.DeliveredMessages, statistics.DuplicateMessages, statistics.OwnGroupMessages, statistics.RefusedMessages, statistics.AbandonedMessages,
        statistics.MalformedFrames, statistics.RejectedFrames,
    ];
}
