using System.Net.Sockets;
using System.Text;
using MudServer.Game;

namespace MudServer.Telnet;

/// <summary>Accepts telnet clients and looks after them until they are gone.</summary>
internal sealed class TelnetListener(
    IOutputBuffer input, ConnectionTable connections, TelnetCounters counters, TelnetSettings settings, TimeProvider timeProvider,
    ILogger<TelnetListener> logger) : IHostedService, IDisposable
{
    private const string Goodbye = "The ferry is called in, and you with it. Goodbye!";

    private readonly Socket _listener = new(settings.EndPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
    private readonly CancellationTokenSource _stopping = new();
    private readonly TaskCompletionSource _empty = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Task _accepting = Task.CompletedTask;
    private int _running = 1;

    // Handles are never used twice: numbers start at the clock, and no node accepts 32 clients a millisecond for long.
    private long _sequence = timeProvider.GetUtcNow().ToUnixTimeMilliseconds() * 32;

    /// <summary>Where it listens; the port is the real one when 0 was asked for.</summary>
    public System.Net.EndPoint EndPoint => _listener.LocalEndPoint!;

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        _listener.Bind(settings.EndPoint);
        _listener.Listen(backlog: 512);
        await input.WriteAsync(NextHandle(), ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(InputKind.NodeStarted), cancellationToken);
        _accepting = AcceptAsync();
    }

    public async Task StopAsync(CancellationToken cancellationToken)
    {
        await _stopping.CancelAsync();
        await _accepting;
        _listener.Dispose();
        Release();
        await WaitUntilEmptyAsync(settings.StopTimeout, cancellationToken);
        foreach (var connection in connections.Connections)
            connection.Close(Goodbye);
        await WaitUntilEmptyAsync(settings.CloseTimeout, cancellationToken);
        foreach (var connection in connections.Connections)
            connection.Abort();
        await WaitUntilEmptyAsync(settings.CloseTimeout, cancellationToken);
    }

    public void Dispose()
    {
        _listener.Dispose();
        _stopping.Dispose();
    }

    private async Task AcceptAsync()
    {
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                var socket = await _listener.AcceptAsync(_stopping.Token);
                socket.NoDelay = true;
                if (connections.Count < settings.MaxConnections)
                    Start(socket);
                else
                    TurnAway(socket);
            }
            catch (Exception exception) when (_stopping.IsCancellationRequested && exception is OperationCanceledException or SocketException)
            {
                return;
            }
            catch (SocketException exception)
            {
                // The client was gone before it was accepted, or file handles ran out: the next one may do better.
                Log.AcceptFailed(logger, exception);
                await Task.Delay(TimeSpan.FromMilliseconds(50), timeProvider);
            }
        }
    }

    private void Start(Socket socket)
    {
        var connection = new TelnetConnection(NextHandle(), socket, input, settings);
        connections.Add(connection);
        counters.CountAccepted();
        Interlocked.Increment(ref _running);
        _ = RunAsync(connection);
    }

    /// <summary>Never throws, so nobody needs its task: the stop waits until the last one has ended.</summary>
    private async Task RunAsync(TelnetConnection connection)
    {
        await Task.Yield();
        try
        {
            await connection.RunAsync();
        }
        catch (Exception exception)
        {
            Log.ConnectionFailed(logger, exception);
        }
        finally
        {
            connections.Remove(connection);
            connection.Dispose();
            Release();
        }
    }

    private void TurnAway(Socket socket)
    {
        counters.CountTurnedAway();
        using (socket)
        {
            // A fresh socket's buffer has room for a line, so this never waits.
            socket.Send(Encoding.ASCII.GetBytes("The island is full. Come back later.\r\n"));
            socket.Shutdown(SocketShutdown.Send);
        }
    }

    private void Release()
    {
        if (Interlocked.Decrement(ref _running) == 0)
            _empty.TrySetResult();
    }

    private async Task WaitUntilEmptyAsync(TimeSpan limit, CancellationToken cancellationToken)
    {
        try
        {
            await _empty.Task.WaitAsync(limit, timeProvider, cancellationToken);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // What is left is closed less politely by the caller's next step.
        }
    }

    private OutputHandle NextHandle() => OutputHandle.Connection(settings.Node, Interlocked.Increment(ref _sequence));
}
