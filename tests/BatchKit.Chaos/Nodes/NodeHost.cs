using BatchKit.Chaos.Histories;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.Chaos.Nodes;

/// <summary>Builds the host of a process for each transport, as a user of BatchKit does, with shorter time limits than the defaults so that a fault meets more of them.</summary>
internal static class NodeHost
{
    public const string RabbitMq = "RabbitMQ";
    public const string Group = "group";

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
        { Name: Group } group => OutputHandle.Named(group.Name),
        var connection => OutputHandle.Connection(connection.Nodes[0], target + 1),
    };

    /// <summary>The header that a message for one of the settings' targets needs.</summary>
    public static MessageHeader? HeaderOf(NodeSettings settings, int target) => null;

    /// <summary>The counters of a host's receiver, as <see cref="Ended"/> has them.</summary>
    public static IReadOnlyList<long> ReadInput(NodeSettings settings, IServiceProvider services) => settings.Transport switch
    {
        RabbitMq => Numbers(services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).GetStatistics()),
        _ => [],
    };

    private static void Add(BatchKitBuilder batchKit, NodeSettings settings, IBatchTransport recorder)
    {
        switch (settings.Transport)
        {
            case RabbitMq:
                batchKit.UseRabbitMq(options => Configure(options, settings)).ReceiveFromRabbitMq(_ => recorder);
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

    private static long[] Numbers(BatchReceiverStatistics statistics) =>
    [
        statistics.ReceivedMessages, statistics.DeliveredMessages, statistics.DuplicateMessages, statistics.OwnGroupMessages, statistics.RefusedMessages, statistics.AbandonedMessages,
        statistics.MalformedFrames, statistics.RejectedFrames,
    ];
}
