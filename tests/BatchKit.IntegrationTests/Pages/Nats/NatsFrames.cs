using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>Code that docs/your-own-bus.md shows.</summary>
internal static class NatsExample
{
    public static void Add(IServiceCollection services, int node, string url)
    {
        services.AddSingleton<INatsConnection>(_ => new NatsConnection(new NatsOpts { Url = url }));
        services.AddSingleton<INatsJSContext>(provider => new NatsJSContext(provider.GetRequiredService<INatsConnection>()));
        services.AddBatchKit(options => options.Node = node)
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
    private static readonly TimeSpan AckWait = TimeSpan.FromSeconds(10);

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        string[] subjects = [$"frames.node.{number.Value}", "frames.all"];
        await jetStream.CreateOrUpdateStreamAsync(new StreamConfig("frames", ["frames.>"]) { MaxAge = TimeSpan.FromHours(1) }, stoppingToken);
        var settings = new ConsumerConfig($"node-{number.Value}") { FilterSubjects = subjects, MaxAckPending = 1, AckWait = AckWait };
        settings.DeliverPolicy = ConsumerConfigDeliverPolicy.New; // a node that never ran before gets no output of earlier hours
        var consumer = await jetStream.CreateOrUpdateConsumerAsync("frames", settings, stoppingToken);
        await foreach (var message in consumer.ConsumeAsync<byte[]>(cancellationToken: stoppingToken))
        {
            if (subjects.Contains(message.Subject)) // a server before 2.10 ignores FilterSubjects and delivers the frames of all nodes
                await ReceiveAsync(message, stoppingToken);
            await message.AckAsync(cancellationToken: CancellationToken.None);
        }
    }

    private async Task ReceiveAsync(INatsJSMsg<byte[]> message, CancellationToken stoppingToken)
    {
        try
        {
            var receiving = receiver.ReceiveAsync(message.Data, stoppingToken).AsTask();
            while (await WaitAsync(receiving, AckWait / 3))
                await message.AckProgressAsync(cancellationToken: CancellationToken.None); // or the server delivers it again after AckWait
            await receiving;
        }
        catch
        {
            // This process stops. After a second it no longer listens, and the server keeps the frame for the next one. The server confirms that, before the connection closes.
            await message.NakAsync(new AckOpts { NakDelay = TimeSpan.FromSeconds(1), DoubleAck = true }, CancellationToken.None);
            throw;
        }
    }

    private static async Task<bool> WaitAsync(Task task, TimeSpan limit)
    {
        await task.WaitAsync(limit, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return !task.IsCompleted;
    }
}
