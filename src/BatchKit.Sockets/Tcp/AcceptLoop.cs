using System.Net;
using System.Net.Sockets;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Accepts clients one after another until it is cancelled. No failure ends it: at the limit of file handles it tries again after a pause.</summary>
/// <remarks>While clients wait in the system's queue an accept completes at once, so the loop takes all of them before it waits.</remarks>
/// <param name="accept">Accepts a client.</param>
/// <param name="take">Takes an accepted client over, and returns at once.</param>
/// <param name="endPoint">Where it listens.</param>
/// <param name="timeProvider">The clock of its pauses.</param>
/// <param name="logger">Gets its failures.</param>
/// <param name="noteTaking">Called with true before the loop takes the clients that wait, and with false when it has taken them all; null for no call.</param>
internal sealed class AcceptLoop(
    Func<CancellationToken, ValueTask<Socket>> accept, Action<Socket> take, EndPoint endPoint, TimeProvider timeProvider, ILogger logger, Action<bool>? noteTaking = null)
{
    // In a storm the loop keeps its thread for some tens of milliseconds, and then lets the pool's other work run.
    private const int MaxConsecutiveAccepts = 4096;

    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(100);

    private readonly LogThrottle _throttle = new(timeProvider);

    /// <summary>Opens a socket that listens.</summary>
    /// <exception cref="IOException">The socket can't listen there; the message names the end point and the setting.</exception>
    public static Socket Listen(IPEndPoint endPoint, int backlog)
    {
        Socket? socket = null;
        try
        {
            socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
            if (endPoint.Address.Equals(IPAddress.IPv6Any))
                socket.DualMode = true;
            socket.Bind(endPoint);
            socket.Listen(backlog);
            return socket;
        }
        catch (SocketException failure)
        {
            socket?.Dispose();
            throw new IOException($"Could not listen on {endPoint}, the listener's setting {nameof(BroadcastListenerOptions.EndPoint)}: {FailureText.MessageOf(failure)}. Choose another address or port, or stop the program that listens there; port 0 takes a free one.", failure);
        }
    }

    /// <summary>Accepts until it is cancelled.</summary>
    /// <remarks>One loop on a socket: a second accept that is under way would keep the first from completing at once.</remarks>
    public async Task RunAsync(CancellationToken cancellationToken)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        while (!cancellationToken.IsCancellationRequested)
        {
            try
            {
                take(await accept(cancellationToken).ConfigureAwait(false));
                await TakeWaitingAsync(cancellationToken).ConfigureAwait(false);
            }
            catch (Exception) when (cancellationToken.IsCancellationRequested)
            {
                return;
            }
            catch (SocketException failure) when (failure.SocketErrorCode is SocketError.ConnectionReset or SocketError.ConnectionAborted)
            {
                // The client left before it was accepted. The next one need not wait.
                Log.AcceptFailed(logger, _throttle, failure, endPoint);
            }
            catch (Exception failure)
            {
                Log.AcceptFailed(logger, _throttle, failure, endPoint);
                await PauseAsync(cancellationToken).ConfigureAwait(false);
            }
        }
    }

    /// <summary>Takes all clients that wait in the system's queue, and the first that comes after them.</summary>
    private async ValueTask TakeWaitingAsync(CancellationToken cancellationToken)
    {
        ValueTask<Socket> accepting = default;
        var taken = 0;
        noteTaking?.Invoke(true);
        try
        {
            for (; taken < MaxConsecutiveAccepts && (accepting = accept(cancellationToken)).IsCompleted; taken++)
                take(await accepting.ConfigureAwait(false));
        }
        finally
        {
            noteTaking?.Invoke(false);
        }

        if (taken < MaxConsecutiveAccepts)
            take(await accepting.ConfigureAwait(false));
        else
            await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
    }

    private async Task PauseAsync(CancellationToken cancellationToken)
    {
        try
        {
            await Task.Delay(Pause, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // The loop checks the token.
        }
    }
}
