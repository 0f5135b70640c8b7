using System.Collections.Concurrent;
using System.Net;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>The connection of a buffer's own bus to RabbitMQ. MassTransit opens it; this class decides when, knows why it can't be opened, and ends it.</summary>
/// <remarks>
/// After a failed attempt MassTransit pauses for 3 to 30 s, longer each time, and no setting changes that. So it makes no attempt before a connection of BatchKit's own, with the same settings, has
/// succeeded.
/// </remarks>
internal sealed class BusLink : IDisposable
{
    /// <summary>What to check while the broker can't be reached.</summary>
    public const string Remedy = $"Check that the broker runs, and the settings of {nameof(MassTransitOptions.RabbitMq)}: hosts, port, user name and password.";

    private readonly MassTransitRabbitMqOptions _options;
    private readonly string _purpose;
    private readonly string _target;
    private readonly ConnectionAge _age;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly Func<string, CancellationToken, Task<IPAddress[]>>? _resolve;
    private readonly TimeSpan _trialLimit;
    private readonly CancellationTokenSource _stopping = new();
    private readonly ConcurrentQueue<Action<string?>> _listeners = new();
    private ConnectionFactory? _factory;
    private volatile ITcpClient? _socket;
    private volatile Exception? _failure;
    private volatile int _connections;

    public BusLink(MassTransitRabbitMqOptions options, string purpose, string target, ConnectionAge age, TimeProvider timeProvider, ILogger logger, Func<string, CancellationToken, Task<IPAddress[]>>? resolve = null)
    {
        (_options, _purpose, _target, _age, _timeProvider, _logger, _resolve) = (options, purpose, target, age, timeProvider, logger, resolve);
        // The sockets of all addresses share one limit. The handshakes have one each; a host has two addresses at most, as a rule.
        _trialLimit = ((1 + (2 * Math.Max(options.Hosts.Count, 1))) * options.ConnectTimeout) + RabbitMqEnd.Limit;
        Alarm = new BusAlarm(options, timeProvider, _stopping.Token);
    }

    /// <summary>What the bus is for: sender or receiver.</summary>
    public string Purpose => _purpose;

    /// <summary>Why the broker accepts no messages now.</summary>
    public BusAlarm Alarm { get; }

    /// <summary>Why the broker can't be reached; null while it can be, and before the first attempt.</summary>
    public Exception? Failure => _failure;

    /// <summary>The same in a sentence.</summary>
    public string? Fault => _failure is { } failure ? Describe(failure) : null;

    /// <summary>What went wrong, and what to check.</summary>
    public string Unreachable(Exception failure) => $"{_target} can't be reached: {Describe(failure).TrimEnd('.')}. {Remedy}";

    /// <summary>Whether the connection is open.</summary>
    public bool IsOpen => _failure is null && _socket is { Connected: true };

    /// <summary>How many times MassTransit has begun to connect. An earlier connection has ended by then, even where it still reports itself as open.</summary>
    public int Connections => _connections;

    /// <summary>Calls it with the reason of each attempt that fails, and with null when <see cref="KeepAsync"/> has connected again.</summary>
    public void Report(Action<string?> listener) => _listeners.Enqueue(listener);

    /// <summary>Has MassTransit connect again after a lost connection: it does so by itself only for a bus that receives. Ends with <see cref="Stop"/>.</summary>
    /// <param name="connect">Sends something, which makes MassTransit connect.</param>
    public async Task KeepAsync(Func<CancellationToken, Task> connect)
    {
        while (!_stopping.IsCancellationRequested)
        {
            await Task.Delay(_options.ReconnectDelay, _timeProvider, _stopping.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            if (IsOpen || _failure is not null || _stopping.IsCancellationRequested)
                continue;
            Tell("The connection ended.");
            try
            {
                await connect(_stopping.Token).ConfigureAwait(false);
                Tell(reason: null);
            }
            catch (Exception)
            {
                // The next attempt follows, and the application's sends report what is wrong.
            }
        }
    }

    /// <summary>Completes when the broker accepts a connection. MassTransit calls it before each attempt to connect, with the same factory.</summary>
    public async Task PrepareAsync(ConnectionFactory factory)
    {
        Follow(factory);
        Interlocked.Increment(ref _connections);
        while (true)
        {
            _age.Restart();
            try
            {
                var reached = await TryAsync().ConfigureAwait(false);
                factory.EndpointResolverFactory = _ => new DefaultEndpointResolver([reached]);
                _failure = null;
                return;
            }
            catch (Exception exception) when (!_stopping.IsCancellationRequested)
            {
                if (_failure is null)
                    ConnectionLog.Failed(_logger, _purpose, Unreachable(exception));
                _failure = exception;
                Tell(Describe(exception));
            }

            await Task.Delay(_options.ReconnectDelay, _timeProvider, _stopping.Token).ConfigureAwait(false);
        }
    }

    /// <summary>Ends the connection. MassTransit then connects again; in a cluster it tries the next broker.</summary>
    public void End() => _socket?.Close();

    /// <summary>Ends the attempts to connect.</summary>
    public void Stop() => _stopping.Cancel();

    public void Dispose() => _stopping.Dispose();

    // The client cancels its own calls at its limits.
    private string Describe(Exception failure) => FailureText.CauseOf(failure) is var cause && cause is OperationCanceledException or TimeoutException
        ? $"it did not answer in time ({nameof(MassTransitRabbitMqOptions.ConnectTimeout)} is {_options.ConnectTimeout})"
        : FailureText.MessageOf(cause);

    private void Tell(string? reason)
    {
        foreach (var listener in _listeners)
            listener(reason);
    }

    // Some of the client's waits ignore its limits and the token; one that fails to open a connection may never end (version 7.2.2, issue 1968).
    private async Task<AmqpTcpEndpoint> TryAsync()
    {
        var trial = RabbitMqBus.ConnectAsync(_options, "BatchKit trial", _stopping.Token, _resolve);
        try
        {
            return (await trial.WaitAsync(_trialLimit, _timeProvider, _stopping.Token).ConfigureAwait(false)).Endpoint;
        }
        finally
        {
            await RabbitMqEnd.EndAsync(trial, _timeProvider).ConfigureAwait(false);
        }
    }

    private void Follow(ConnectionFactory factory)
    {
        if (_factory == factory)
            return;
        _factory = factory;
        var create = factory.SocketFactory;
        factory.SocketFactory = family => _socket = create(family);
    }
}
