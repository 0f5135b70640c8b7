using System.Net;
using System.Net.Sockets;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Accepts clients, one after the other, until it is cancelled. No failure ends it: at the limit of file handles it tries again after a pause.</summary>
internal sealed class AcceptLoop(Func<CancellationToken, ValueTask<Socket>> accept, Action<Socket> take, EndPoint endPoint, TimeProvider timeProvider, ILogger logger)
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(100);

    public async Task RunAsync(CancellationToken cancellationToken)
    {
        await Task.Yield();
        while (!cancellationToken.IsCancellationRequested)
        {
            try
            {
                take(await accept(cancellationToken).ConfigureAwait(false));
            }
            catch (Exception) when (cancellationToken.IsCancellationRequested)
            {
                return;
            }
            catch (SocketException failure) when (failure.SocketErrorCode is SocketError.ConnectionReset or SocketError.ConnectionAborted)
            {
                // The client was gone before it was accepted; the next one need not wait.
                Log.AcceptFailed(logger, failure, endPoint);
            }
            catch (Exception failure)
            {
                Log.AcceptFailed(logger, failure, endPoint);
                await PauseAsync(cancellationToken).ConfigureAwait(false);
            }
        }
    }

    private async Task PauseAsync(CancellationToken cancellationToken)
    {
        try
        {
            await Task.Delay(Pause, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // The loop sees it by the token.
        }
    }
}
