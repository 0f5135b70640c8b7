using System.Reflection;
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
        var subscriber = Interceptor<ISubscriber>.Of(connection.GetSubscriber(), nameof(ISubscriber.SubscribeAsync), () =>
        {
            asked.TrySetResult();
            return subscribing.Task;
        });
        var receiver = new RedisReceiver(
            options, new NodeNumber(2), new BatchReceiver(new CollectingTransport()), Interceptor<IConnectionMultiplexer>.Of(connection, nameof(IConnectionMultiplexer.GetSubscriber), () => subscriber));
        var starting = receiver.StartAsync(CancellationToken.None);
        await asked.Task.WithinDeadline();

        var stopping = receiver.StopAsync(CancellationToken.None);
        subscribing.SetException(new RedisException("The server did not answer."));

        await stopping.WithinDeadline();
        await starting.WithinDeadline();
        await receiver.DisposeAsync().WithinDeadline();
        await receiver.DisposeAsync().WithinDeadline();
    }

    /// <summary>Answers one method's calls by a function, and passes the others on.</summary>
    private class Interceptor<T> : DispatchProxy
        where T : class
    {
        private T _inner = null!;
        private string _method = "";
        private Func<object?> _answer = null!;

        public static T Of(T inner, string method, Func<object?> answer)
        {
            var proxy = Create<T, Interceptor<T>>();
            var self = (Interceptor<T>)(object)proxy;
            (self._inner, self._method, self._answer) = (inner, method, answer);
            return proxy;
        }

        protected override object? Invoke(MethodInfo? targetMethod, object?[]? args) =>
            targetMethod!.Name == _method ? _answer() : targetMethod.Invoke(_inner, BindingFlags.DoNotWrapExceptions, binder: null, args, culture: null);
    }
}
