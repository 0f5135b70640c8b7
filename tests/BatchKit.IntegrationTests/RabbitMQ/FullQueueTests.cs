using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A node whose queue has reached its operator's limit (<c>reject-publish</c>): its own output waits, and nothing else does.</summary>
public sealed class FullQueueTests(RabbitMqFixture fixture)
{
    private const int Lines = 50;

    private static readonly Dictionary<string, object?> Full = new(StringComparer.Ordinal) { ["x-max-length"] = 1, ["x-overflow"] = "reject-publish" };

    [Fact]
    public async Task Output_for_another_node_passes_over_the_same_connection_and_the_rest_arrives_in_order_later()
    {
        var (full, free) = (Some.Connection(5), Some.Connection(6));
        var changes = new ConnectionChanges();
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.ConnectionChanged = changes.Add);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var fullQueue = Some.Name("full");
        await probe.DeclareQueueAsync(options, fullQueue, "5", Full);
        var freeQueue = await probe.ListenAsync(options, "6");
        await probe.PublishAsync(options, "5", Some.Frame(Some.Batch(full, Some.Producer(), 1, "fills the queue")));
        await using var transport = new RabbitMqTransport(options);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(100) });

        for (var line = 0; line < Lines; line++)
        {
            buffer.Write(full, $"waits {line}");
            await using var scope = buffer.BeginBufferingScope(free);
            buffer.Write(free, string.Create(CultureInfo.InvariantCulture, $"line {line}"));
        }

        var health = buffer.GetHealth();
        var passed = (await probe.TakeFramesAsync(freeQueue)).SelectMany(static frame => frame.Texts).ToArray();
        var arrived = new List<string>();
        var flushed = buffer.FlushAsync(full).AsTask();
        while (!flushed.IsCompleted || await probe.CountAsync(fullQueue) > 0)
            arrived.AddRange((await probe.TakeFramesAsync(fullQueue)).SelectMany(static frame => frame.Texts));

        Assert.Equal(Enumerable.Range(0, Lines).Select(static line => $"line {line}"), passed);
        Assert.Equal(HealthStatus.Degraded, health.Status);
        Assert.Contains("did not accept a frame for node 5", Assert.Single(health.Reasons), StringComparison.Ordinal);
        Assert.Equal(["fills the queue", .. Enumerable.Range(0, Lines).Select(static line => $"waits {line}")], arrived);
        Assert.Single(changes.All);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_applications_own_messages_leave_a_channel_over_which_the_broker_takes_nothing(bool takesOthers)
    {
        var (clock, changes) = (new ManualTimeProvider(), new ConnectionChanges());
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.ConnectionChanged = changes.Add);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var (full, free) = (Some.Name("full"), await probe.ListenAsync(options, "6"));
        await probe.DeclareQueueAsync(options, full, "5", Full);
        await using var sender = new RabbitMqMessageSender(options, clock, NullLogger.Instance, metrics: null);
        await SendAsync(full);
        clock.Advance(TimeSpan.FromHours(1));

        for (var attempt = 0; attempt < 2; attempt++)
        {
            if (takesOthers)
                await SendAsync(free);
            await Assert.ThrowsAsync<IOException>(() => SendAsync(full));
        }

        Assert.Equal(takesOthers ? [BrokerConnectionState.Connected] : [BrokerConnectionState.Connected, BrokerConnectionState.Lost], changes.States);

        Task SendAsync(string queue) => sender.SendAsync(Some.Connection(), new RabbitMqMessage("", queue, Some.Bytes("a")), CancellationToken.None).AsTask().WithinDeadline();
    }

    [Fact]
    public async Task Output_for_all_nodes_that_waits_with_it_is_neither_overtaken_nor_refused()
    {
        var (full, group, free) = (Some.Connection(5), Some.Group(), Some.Connection(6));
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        var fullQueue = Some.Name("full");
        await probe.DeclareQueueAsync(options, fullQueue, "5", Full);
        var freeQueue = await probe.ListenAsync(options, "6", "all");
        await probe.PublishAsync(options, "5", Some.Frame(Some.Batch(full, Some.Producer(), 1, "fills the queue")));
        await using var transport = new RabbitMqTransport(options);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(100) });

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(full, "waits");
            buffer.Write(group, "to all");
            buffer.Write(free, "behind it");
        }

        await Until.TrueAsync(() => buffer.GetHealth().Status == HealthStatus.Degraded);
        var arrived = new List<string>();
        var flushed = buffer.FlushAsync().AsTask();
        while (!flushed.IsCompleted || await probe.CountAsync(fullQueue) > 0)
            arrived.AddRange((await probe.TakeFramesAsync(fullQueue)).SelectMany(static frame => frame.Texts));

        await flushed;
        Assert.Equal(["fills the queue", "waits", "to all"], arrived);
        // A receiver drops the repeats: the broker delivers to each queue that has room, and rejects for the one that has none.
        Assert.Equal(["to all", "behind it"], (await probe.TakeFramesAsync(freeQueue)).SelectMany(static frame => frame.Texts).Distinct());
    }
}
