using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;

namespace BatchKit.Nats.Tests;

/// <summary>A node whose subject has reached its operator's limit (<c>max_msgs_per_subject</c> with <c>discard_new_per_subject</c>): its own output waits, and nothing else does.</summary>
public sealed class FullSubjectTests(NatsFixture nats)
{
    private const int Limit = 20;

    [Fact]
    public async Task Output_for_another_node_passes_and_the_rest_arrives_in_order_later()
    {
        var (full, free) = (OutputHandle.Connection(5, 1), OutputHandle.Connection(6, 1));
        var options = await nats.NewOptionsAsync();
        options.DeclareTopology = false;
        await using var operators = new NatsConnection(new NatsOpts { Url = options.Url! });
        var jetStream = new NatsJSContext(operators);
        await jetStream.CreateStreamAsync(new StreamConfig(options.Prefix, [$"{options.Prefix}.>"])
        {
            MaxMsgsPerSubject = Limit,
            Discard = StreamConfigDiscard.New,
            DiscardNewPerSubject = true,
        });
        for (var filler = 0; filler < Limit; filler++)
            await jetStream.PublishAsync($"{options.Prefix}.node.5", Some.Frame(Some.Batch(full, Some.Producer(), 1, "fills")));
        await using var transport = new NatsTransport(options);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(100) });

        for (var line = 0; line < Limit / 2; line++)
        {
            buffer.Write(full, $"waits {line}");
            buffer.Write(free, $"line {line}");
            await buffer.FlushAsync(free).WithinDeadline();
        }

        var health = buffer.GetHealth();
        var passed = await ReadAsync(jetStream, options.Prefix, "node.6");
        await jetStream.PurgeStreamAsync(options.Prefix, new StreamPurgeRequest { Filter = $"{options.Prefix}.node.5" });
        await buffer.FlushAsync(full).WithinDeadline();

        Assert.Equal(Some.Lines(Limit / 2), passed);
        Assert.Equal(HealthStatus.Degraded, health.Status);
        Assert.Contains("takes nothing for node 5 now", Assert.Single(health.Reasons), StringComparison.Ordinal);
        Assert.Equal(Enumerable.Range(0, Limit / 2).Select(static line => $"waits {line}"), await ReadAsync(jetStream, options.Prefix, "node.5"));
    }

    private static async Task<IReadOnlyList<string>> ReadAsync(NatsJSContext jetStream, string prefix, string subject)
    {
        var consumer = await jetStream.CreateOrUpdateConsumerAsync(prefix, new ConsumerConfig { AckPolicy = ConsumerConfigAckPolicy.None });
        var texts = new List<string>();
        await foreach (var message in consumer.FetchNoWaitAsync<byte[]>(new NatsJSFetchOpts { MaxMsgs = 100 }))
        {
            if (message.Subject != $"{prefix}.{subject}")
                continue;
            var arrived = new CollectingTransport();
            await new BatchReceiver(arrived).ReceiveAsync(message.Data, CancellationToken.None);
            texts.AddRange(arrived.Texts);
        }

        return texts;
    }
}
