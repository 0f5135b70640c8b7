using System.Reflection;
using BatchKit.TestServers.RabbitMQ;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The client, whose calls never end when a test says so, as they may when a connection is lost (version 7.2.2, issues 1968 and 1976).</summary>
internal sealed class HangingClient
{
    private readonly ConnectionFactory _factory;
    private readonly TaskCompletionSource<IChannel> _never = new();
    private readonly Lock _lock = new();
    private readonly List<Hangs> _connections = [];

    public HangingClient(RabbitMqServer server, int port)
    {
        _factory = new ConnectionFactory { Uri = server.Address, Port = port, AutomaticRecoveryEnabled = false };
        Factory = Interceptor<IConnectionFactory>.Of(
            _factory, (method, call) => method == nameof(IConnectionFactory.CreateConnectionAsync) ? CreateConnectionAsync((Task<IConnection>)call()!) : call());
    }

    public IConnectionFactory Factory { get; }

    /// <summary>From now on no channel of the connections that there are ever ends.</summary>
    public void HangEnds() => ForEach(static hangs => hangs.Ends = true);

    /// <summary>From now on no channel of the connections that there are ever opens, and a test knows when one is asked for.</summary>
    public Task HangOpens()
    {
        ForEach(static hangs => hangs.Opens = true);
        lock (_lock)
            return Task.WhenAny(_connections.Select(static hangs => hangs.Asked.Task));
    }

    private void ForEach(Action<Hangs> hang)
    {
        lock (_lock)
            _connections.ForEach(hang);
    }

    private async Task<IConnection> CreateConnectionAsync(Task<IConnection> creating)
    {
        var hangs = new Hangs();
        var connection = Interceptor<IConnection>.Of(
            await creating, (method, call) => method == nameof(IConnection.CreateChannelAsync) ? CreateChannelAsync(call, hangs) : call());
        lock (_lock)
            _connections.Add(hangs);
        return connection;
    }

    private async Task<IChannel> CreateChannelAsync(Func<object?> call, Hangs hangs)
    {
        if (hangs.Opens)
        {
            hangs.Asked.TrySetResult();
            return await _never.Task;
        }

        return Interceptor<IChannel>.Of(await (Task<IChannel>)call()!, (method, inner) => method switch
        {
            nameof(IChannel.CloseAsync) when hangs.Ends => _never.Task,
            nameof(IAsyncDisposable.DisposeAsync) when hangs.Ends => new ValueTask(_never.Task),
            _ => inner(),
        });
    }

    /// <summary>Which calls of a connection hang.</summary>
    private sealed class Hangs
    {
        public volatile bool Ends;
        public volatile bool Opens;

        public TaskCompletionSource Asked { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    /// <summary>Passes each call on through a function, which gets the method's name.</summary>
    private class Interceptor<T> : DispatchProxy
        where T : class
    {
        private T _inner = null!;
        private Func<string, Func<object?>, object?> _intercept = null!;

        public static T Of(T inner, Func<string, Func<object?>, object?> intercept)
        {
            var proxy = Create<T, Interceptor<T>>();
            var self = (Interceptor<T>)(object)proxy;
            (self._inner, self._intercept) = (inner, intercept);
            return proxy;
        }

        protected override object? Invoke(MethodInfo? targetMethod, object?[]? args) =>
            _intercept(targetMethod!.Name, () => targetMethod.Invoke(_inner, BindingFlags.DoNotWrapExceptions, binder: null, args, culture: null));
    }
}
