using System.Text;
using BatchKit.Broadcast.Fanout;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Connections;

/// <summary>Sends the goodbye to all connections, closes them, and waits, within a limit, until each has read everything.</summary>
internal sealed class ConnectionDrain(BroadcastTransport transport, TimeProvider timeProvider, ILogger logger)
{
    public async Task RunAsync(CancellationToken cancellationToken)
    {
        var connections = transport.Connections.All.ToArray();
        if (connections.Length == 0)
            return;
        SendGoodbye(connections);
        foreach (var connection in connections)
            connection.Close(DisconnectReason.Stopped);
        var limit = transport.Options.DrainTimeout;
        try
        {
            await Task.WhenAll(connections.Select(connection => connection.Output.Ended)).WaitAsync(limit, timeProvider, cancellationToken).ConfigureAwait(false);
            Log.Drained(logger, connections.Length);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            var late = connections.Where(connection => !connection.Output.Ended.IsCompleted).ToArray();
            foreach (var connection in late)
                connection.Abort(DisconnectReason.Stopped);
            Log.DrainTimedOut(logger, late.Length, connections.Length, limit);
        }
    }

    private void SendGoodbye(ClientConnection[] connections)
    {
        if (string.IsNullOrEmpty(transport.Options.GoodbyeMessage))
            return;
        var message = new BatchMessage(Encoding.UTF8.GetBytes(transport.Options.GoodbyeMessage));
        var batch = MessageBatch.Create(OutputHandle.Named("goodbye"), default, number: 1, message);
        var work = new FanoutWork(transport.Limits, transport.Counters);
        work.Staged.StageOnly(batch, connections, isLast: true);
        work.RunInline();
        work.Staged.Clear();
    }
}
