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
    private readonly List<HangingConnection> _connections = [];
    private string? _hangingMethod;
    private int _callsBefore;
    private TaskCompletionSource? _called;

    public HangingClient(RabbitMqServer server, int port)
    {
        _factory = new ConnectionFactory { Uri = server.Address, Port = port, AutomaticRecoveryEnabled = false };
        Factory = Interceptor.Of<IConnectionFactory>(
            _factory, (method, _, call) => method.Name == nameof(IConnectionFactory.CreateConnectionAsync) ? CreateConnectionAsync((Task<IConnection>)call()!) : call());
    }

    /// <summary>A factory of an application that never connects, and whose callback at the end of an attempt hangs.</summary>
    /// <param name="asked">Completed when it is asked to connect.</param>
    /// <param name="released">Ends what hangs.</param>
    public static IConnectionFactory CreateStuckFactory(TaskCompletionSource asked, Task released)
    {
        return Interceptor.Of<IConnectionFactory>(new ConnectionFactory(), (method, arguments, call) =>
            method.Name == nameof(IConnectionFactory.CreateConnectionAsync) ? ConnectAsync((CancellationToken)arguments[^1]!) : call());

        async Task<IConnection> ConnectAsync(CancellationToken cancellationToken)
        {
            await Task.Yield();
            cancellationToken.Register(released.Wait);
            asked.SetResult();
            return await Never<IConnection>();
        }
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

    /// <summary>One call of a method of a connection or a channel never ends, whichever it is of. A test knows when it is made.</summary>
    /// <param name="method">The method's name.</param>
    /// <param name="call">Which of its calls from now on; 1 is the next.</param>
    public Task HangCall(string method, int call)
    {
        lock (_lock)
        {
            (_hangingMethod, _callsBefore, _called) = (method, call - 1, new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously));
            return _called.Task;
        }
    }

    private static Task<T> Never<T>() => new TaskCompletionSource<T>().Task;

    private bool Hangs(MethodInfo method)
    {
        lock (_lock)
        {
            if (method.Name != _hangingMethod || _callsBefore-- > 0)
                return false;
            _hangingMethod = null;
            _called!.SetResult();
            return true;
        }
    }

    private void ForEach(Action<HangingConnection> hang)
    {
        lock (_lock)
            _connections.ForEach(hang);
    }

    private async Task<IConnection> CreateConnectionAsync(Task<IConnection> creating)
    {
        var hangs = new HangingConnection();
        var connection = Interceptor.Of<IConnection>(
            await creating, (method, _, call) => method.Name != nameof(IConnection.CreateChannelAsync) ? call() : Hangs(method) ? Never<IChannel>() : CreateChannelAsync(call, hangs));
        lock (_lock)
            _connections.Add(hangs);
        return connection;
    }

    private async Task<IChannel> CreateChannelAsync(Func<object?> call, HangingConnection hangs)
    {
        if (hangs.Opens)
        {
            hangs.Asked.TrySetResult();
            return await _never.Task;
        }

        return Interceptor.Of<IChannel>(await (Task<IChannel>)call()!, (method, _, inner) => method.Name switch
        {
            nameof(IChannel.CloseAsync) when hangs.Ends => _never.Task,
            nameof(IAsyncDisposable.DisposeAsync) when hangs.Ends => new ValueTask(_never.Task),
            nameof(IChannel.BasicConsumeAsync) when Hangs(method) => Never<string>(),
            _ => inner(),
        });
    }

    /// <summary>Which calls of a connection hang.</summary>
    private sealed class HangingConnection
    {
        public volatile bool Ends;
        public volatile bool Opens;

        public TaskCompletionSource Asked { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }
}
