using System.Collections.Concurrent;
using BatchKit.Diagnostics;
using BatchKit.RabbitMQ;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace BatchKit.MassTransit;

/// <summary>The connection of a buffer's own bus to RabbitMQ. MassTransit opens it; this class decides when, knows why it can't be opened, and ends it.</summary>
/// <remarks>
/// After a failed attempt MassTransit pauses for 3 to 30 s, longer each time, and no setting changes that. So it makes no attempt before a connection of BatchKit's own, with the same settings, has
/// succeeded.
/// </remarks>
internal sealed class BusLink(MassTransitRabbitMqOptions options, string target, ConnectionAge age, TimeProvider timeProvider, ILogger logger) : IDisposable
{
    // RabbitMQ's own maximum.
    private const uint MaxBodyBytes = 128 * 1024 * 1024;

    // The client tries one host after the other: its socket, then its handshake, each with the limit.
    private readonly TimeSpan _trialLimit = (Math.Max(options.Hosts.Count, 1) * 2 * options.ConnectTimeout) + RabbitMqEnd.Limit;
    private readonly CancellationTokenSource _stopping = new();
    private readonly ConcurrentQueue<Action<string>> _listeners = new();
    private ConnectionFactory? _factory;
    private volatile ITcpClient? _socket;
    private volatile Exception? _failure;
    private volatile int _connections;

    /// <summary>Why the broker can't be reached; null while it can be, and before the first attempt.</summary>
    public Exception? Failure => _failure;

    /// <summary>The same in a sentence.</summary>
    public string? Fault => _failure is { } failure ? FailureText.MessageOf(FailureText.CauseOf(failure)) : null;

    /// <summary>Whether the connection is open.</summary>
    public bool IsOpen => _failure is null && _socket is { Connected: true };

    /// <summary>How many times MassTransit has begun to connect. What an earlier connection carried is gone by then, whatever it says of itself.</summary>
    public int Connections => _connections;

    /// <summary>Calls it with the reason of each attempt that fails.</summary>
    public void Report(Action<string> listener) => _listeners.Enqueue(listener);

    /// <summary>Completes when the broker accepts a connection. MassTransit calls it before each attempt to connect, with the same factory.</summary>
    public async Task PrepareAsync(ConnectionFactory factory)
    {
        Follow(factory);
        Interlocked.Increment(ref _connections);
        while (true)
        {
            age.Restart();
            try
            {
                await TryAsync().ConfigureAwait(false);
                _failure = null;
                return;
            }
            catch (Exception exception) when (!_stopping.IsCancellationRequested)
            {
                if (_failure is null)
                    Log.ConnectFailed(logger, exception, target);
                _failure = exception;
                foreach (var listener in _listeners)
                    listener(FailureText.MessageOf(FailureText.CauseOf(exception)));
            }

            await Task.Delay(options.ReconnectDelay, timeProvider, _stopping.Token).ConfigureAwait(false);
        }
    }

    /// <summary>Ends the connection. MassTransit then connects again; in a cluster it tries the next broker.</summary>
    public void End() => _socket?.Close();

    /// <summary>Ends the attempts to connect.</summary>
    public void Stop() => _stopping.Cancel();

    public void Dispose() => _stopping.Dispose();

    // Some of the client's waits ignore its limits and the token; one that fails to open a connection may never end (version 7.2.2, issue 1968).
    private async Task TryAsync()
    {
        var trial = RabbitMqBus.ConnectAsync(options, "BatchKit trial", _stopping.Token);
        try
        {
            await trial.WaitAsync(_trialLimit, timeProvider, _stopping.Token).ConfigureAwait(false);
        }
        finally
        {
            await RabbitMqEnd.EndAsync(trial, timeProvider).ConfigureAwait(false);
        }
    }

    private void Follow(ConnectionFactory factory)
    {
        if (_factory == factory)
            return;
        _factory = factory;
        // By default the client ends the connection for each message above 64 MiB.
        factory.MaxInboundMessageBodySize = MaxBodyBytes;
        var create = factory.SocketFactory;
        factory.SocketFactory = family => _socket = create(family);
    }
}
