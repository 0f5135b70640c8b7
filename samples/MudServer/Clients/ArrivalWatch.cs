using System.Text;
using BatchKit.Broadcast;
using BatchKit.Transports;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>Tells a new client when the game can't be reached, because a gateway may run without a game.</summary>
internal sealed class ArrivalWatch(
    [FromKeyedServices(MudBuffers.Input)] IOutputBuffer input, [FromKeyedServices(MudBuffers.Input)] BroadcastTransport clients, TimeProvider timeProvider)
{
    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    /// <summary>Completes when the game has accepted the client or the client has disconnected. Never throws.</summary>
    public async Task WatchAsync(ClientConnection connection, CancellationToken gone)
    {
        try
        {
            var arrival = input.FlushAsync(connection.Handle, CancellationToken.None).AsTask();
            if (await Task.WhenAny(arrival, Task.Delay(Patience, timeProvider, gone)) != arrival)
                await SayAsync(connection, "The island is hard to make out just now. Hold on.");
            await arrival.WaitAsync(gone);
        }
        catch (OutputDeliveryException)
        {
            await SayAsync(connection, "The island is not there just now. Come back in a minute.");
            connection.Close();
        }
        catch (Exception exception) when (exception is OperationCanceledException or ObjectDisposedException)
        {
            // The client has disconnected, or the server stops.
        }
    }

    /// <summary>Writes directly to the client, because this process may have no output buffer.</summary>
    private async Task SayAsync(ClientConnection connection, string line)
    {
        var batch = MessageBatch.Create(connection.Handle, default, number: 1, new BatchMessage(Encoding.UTF8.GetBytes($"{line}\r\n")));
        try
        {
            await clients.SendAsync(new[] { batch }, CancellationToken.None);
        }
        catch (Exception exception) when (exception is BatchSendException or ObjectDisposedException)
        {
            // The client has disconnected.
        }
    }
}
