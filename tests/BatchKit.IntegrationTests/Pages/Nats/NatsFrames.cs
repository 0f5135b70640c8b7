using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>Code that docs/your-own-bus.md shows.</summary>
internal static class NatsExample
{
    public static void Add(IServiceCollection services)
    {
        services.AddSingleton<INatsJSContext>(_ => new NatsJSContext(new NatsConnection(new NatsOpts { Url = "nats://localhost:4222" })));
        services.AddBatchKit(options => options.Node = 1)
            .UseFrameTransport(
                provider => async (frame, cancellationToken) =>
                {
                    var subject = frame.Destination.IsAll ? "frames.all" : $"frames.node.{frame.Destination.Node}";
                    var jetStream = provider.GetRequiredService<INatsJSContext>();
                    (await jetStream.PublishAsync(subject, frame.Bytes, cancellationToken: cancellationToken)).EnsureSuccess();
                },
                options => (options.BusName, options.MaxFrameBytes) = ("NATS", 1_000_000)) // below the server's max_payload
            .AddFrameReceiver(provider => provider.GetRequiredService<MySockets>());
        services.AddHostedService<NatsFrames>();
    }
}

internal sealed class NatsFrames(INatsJSContext jetStream, FrameReceiver receiver, NodeNumber number) : BackgroundService
{
    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        var node = number.Value;
        await jetStream.CreateOrUpdateStreamAsync(new StreamConfig("frames", ["frames.>"]) { MaxAge = TimeSpan.FromHours(1) }, stoppingToken);
        var settings = new ConsumerConfig($"node-{node}") { FilterSubjects = [$"frames.node.{node}", "frames.all"], MaxAckPending = 1 };
        settings.AckWait = TimeSpan.FromMinutes(10); // above what a delivery may take
        var consumer = await jetStream.CreateOrUpdateConsumerAsync("frames", settings, stoppingToken);
        await foreach (var message in consumer.ConsumeAsync<byte[]>(cancellationToken: stoppingToken))
        {
            await receiver.ReceiveAsync(message.Data, stoppingToken);
            await message.AckAsync(cancellationToken: stoppingToken);
        }
    }
}
