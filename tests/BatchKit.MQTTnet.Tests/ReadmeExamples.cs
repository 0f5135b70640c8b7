using BatchKit.MQTTnet;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;
using MQTTnet.Server;

namespace BatchKit.MQTTnet.Tests;

/// <summary>What the package's readme shows.</summary>
internal static class ReadmeExamples
{
    private static readonly MqttUserProperty Unit = new("unit", "celsius"u8.ToArray());

    public static IMqttClient AddClient(IServiceCollection services)
    {
        var client = new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory());
        services.AddBatchKit().UseMqttClient(_ => client);
        return client;
    }

    public static void AddServer(IServiceCollection services, MqttServer server)
    {
        services.AddBatchKit().UseMqttServer(_ => server);
    }

    public static async Task PublishAsync(IMqttClient client, ILogger logger, CancellationToken cancellationToken)
    {
        MqttApplicationMessage[] messages =
        [
            new() { Topic = "house/kitchen", PayloadSegment = "21.5"u8.ToArray(), QualityOfServiceLevel = MqttQualityOfServiceLevel.AtLeastOnce, Retain = true, UserProperties = [Unit] },
            new() { Topic = "house/door", PayloadSegment = "open"u8.ToArray() },
        ];

        var report = await client.PublishManyAsync(messages, cancellationToken);
        for (var index = 0; index < report.Count; index++)
        {
            if (!report[index].IsSuccess)
                logger.LogWarning("{Topic}: {Outcome}, {Reason}", messages[index].Topic, report[index].Outcome, report[index].Reason);
        }
    }

    public static async Task InjectAsync(MqttServer server, MqttApplicationMessage[] messages, ILogger logger, CancellationToken cancellationToken)
    {
        var report = await server.InjectManyAsync(messages, cancellationToken);
        if (report.DroppedMessages > 0)
            logger.LogWarning("{Dropped} messages were dropped for subscribers that do not read.", report.DroppedMessages);
    }
}
