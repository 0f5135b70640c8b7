using System.Collections.Immutable;
using BatchKit.Transports;

namespace MudServer.Telnet;

/// <summary>The last hop: expands groups, follows control messages, and queues everything else for the connections' sockets.</summary>
internal sealed class TelnetTransport(ConnectionTable connections, TelnetCounters counters) : IBatchTransport
{
    /// <summary>Queueing takes no waiting, so a writer may do it on its own thread.</summary>
    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        BatchOutcome[]? outcomes = null;
        for (var index = 0; index < batches.Length; index++)
        {
            if (TrySend(batches.Span[index]))
                continue;
            if (outcomes is null)
            {
                outcomes = new BatchOutcome[batches.Length];
                Array.Fill(outcomes, BatchOutcome.Acknowledged);
            }

            outcomes[index] = BatchOutcome.Refused;
            counters.CountGoneBatch();
        }

        return outcomes is null
            ? ValueTask.CompletedTask
            : ValueTask.FromException(new BatchSendException(ImmutableArray.Create(outcomes), "A connection is gone."));
    }

    private bool TrySend(MessageBatch batch)
    {
        counters.CountBatch(batch.Count);
        if (batch.Handle.IsConnection)
            return connections.TryGet(batch.Handle, out var connection) && TrySend(connection, batch);
        foreach (var member in connections.GetMembers(batch.Handle.Name!))
            Queue(member, batch, 0..batch.Count, isLast: true);
        return true;
    }

    /// <summary>Control messages take effect between the messages before and behind them.</summary>
    private bool TrySend(TelnetConnection connection, MessageBatch batch)
    {
        var first = 0;
        for (var index = 0; batch.HasHeaders && index < batch.Count; index++)
        {
            var message = batch[index];
            if (message.Kind != MessageKind.Control)
                continue;
            if (index > first && !Queue(connection, batch, first..index, isLast: false))
                return false;
            Obey(connection, message);
            first = index + 1;
        }

        return first == batch.Count || Queue(connection, batch, first..batch.Count, isLast: true);
    }

    private bool Queue(TelnetConnection connection, MessageBatch batch, Range messages, bool isLast)
    {
        switch (connection.TryAdd(batch, messages, isLast))
        {
            case QueueResult.Added:
                counters.CountDelivery();
                return true;
            case QueueResult.Full:
                counters.CountSlowConnection();
                connection.Abort();
                return false;
            default:
                return false;
        }
    }

    private void Obey(TelnetConnection connection, BatchMessage message)
    {
        if (!ControlMessage.TryRead(message.Payload.Span, out var control))
            counters.CountUnknownControl();
        else if (control.Operation == ControlOperation.JoinGroup)
            connections.Join(connection, control.Group);
        else if (control.Operation == ControlOperation.LeaveGroup)
            connections.Leave(connection, control.Group);
        else
            connection.Close();
    }
}
