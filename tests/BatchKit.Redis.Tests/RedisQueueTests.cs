using BatchKit.Testing;
using BatchKit.TestSupport;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Redis.Tests;

/// <summary>What waits in a receiver for a next hop that is slow.</summary>
public sealed class RedisQueueTests(RedisFixture redis)
{
    [Fact]
    public async Task While_the_next_hop_has_a_frame_only_so_many_wait()
    {
        var options = await redis.NewOptionsAsync();
        options.MaxWaitingFrames = 10;
        using var sender = await RedisHosts.StartAsync(options, 1);
        var stuck = new StuckHop();
        await using var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(stuck));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        var output = sender.Services.GetRequiredService<OutputBuffer>();
        output.Write(OutputHandle.Connection(2, 1), "in hand");
        await stuck.Entered.WithinDeadline();

        for (var frame = 0; frame < 100; frame++)
        {
            output.Write(OutputHandle.Connection(2, 1), $"{frame}");
            await output.FlushAsync().WithinDeadline();
        }

        await Until.TrueAsync(() => receiver.DroppedFrames == 90);
        stuck.Release();
        await Until.TrueAsync(() => receiver.GetStatistics().DeliveredMessages == 11);
    }

    [Fact]
    public async Task While_the_next_hop_has_a_frame_only_so_many_bytes_wait()
    {
        var options = await redis.NewOptionsAsync();
        var stuck = new StuckHop();
        await using var receiver = new RedisReceiver(options, new NodeNumber(2), new BatchReceiver(stuck));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new RedisTransport(options);
        var (producer, text) = (Some.Producer(), new string('x', options.MaxFrameBytes - 1000));

        for (var number = 1; number <= 200; number++)
        {
            await transport.SendAsync(new[] { Some.Batch(OutputHandle.Connection(2, 1), producer, number, text) }, CancellationToken.None).AsTask().WithinDeadline();
            await stuck.Entered.WithinDeadline();
        }

        await Until.TrueAsync(() => receiver.DroppedFrames == 200 - 1 - 64);
        stuck.Release();
        await Until.TrueAsync(() => receiver.GetStatistics().DeliveredMessages == 65);
    }
}
