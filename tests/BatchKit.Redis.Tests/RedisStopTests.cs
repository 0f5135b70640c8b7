using BatchKit.Testing;
using BatchKit.Transports;
using StackExchange.Redis;

namespace BatchKit.Redis.Tests;

/// <summary>A receiver that is stopped while its client is busy.</summary>
public sealed class RedisStopTests(RedisFixture redis)
{
    [Fact]
    public async Task A_subscription_that_fails_when_the_receiver_stops_makes_no_stop_fail()
    {
        var options = await redis.NewOptionsAsync();
        await using var connection = await ConnectionMultiplexer.ConnectAsync(options.Configuration!);
        options.Configuration = null;
        var (asked, subscribing) = (new TaskCompletionSource(), new TaskCompletionSource<ChannelMessageQueue>());
        var subscriber = Interceptor.Of<ISubscriber>(connection.GetSubscriber(), nameof(ISubscriber.SubscribeAsync), () =>
        {
            asked.TrySetResult();
            return subscribing.Task;
        });
        var receiver = new RedisReceiver(
            options, new NodeNumber(2), new BatchReceiver(new CollectingTransport()), Interceptor.Of<IConnectionMultiplexer>(connection, nameof(IConnectionMultiplexer.GetSubscriber), () => subscriber));
        var starting = receiver.StartAsync(CancellationToken.None);
        await asked.Task.WithinDeadline();

        var stopping = receiver.StopAsync(CancellationToken.None);
        subscribing.SetException(new RedisException("The server did not answer."));

        await stopping.WithinDeadline();
        await starting.WithinDeadline();
        await receiver.DisposeAsync().WithinDeadline();
        await receiver.DisposeAsync().WithinDeadline();
    }
}
