using BatchKit.SignalR.Clients;
using BatchKit.SignalR.Records;
using BatchKit.Transports;

namespace BatchKit.SignalR.Hubs;

/// <summary>Does what a hub's records ask for, on the server that has the clients.</summary>
internal sealed class HubDelivery(HubMembers members, HubCalls calls, ClientLimits limits) : IHubReceiver
{
    public bool TryDeliver(MessageBatch batch, HubTarget target, string key, HubSend send) => target == HubTarget.Server
        ? calls.TryReceive(batch, key)
        : TryDeliver(batch, members.Get(target, key), send);

    public bool TryDeliver(MessageBatch batch, HubClient[] clients, HubSend send)
    {
        var first = 0;
        while (clients.Length > 0 && first < batch.Count)
        {
            var record = new RecordReader(batch[first].Payload.Span);
            if (record.Kind != RecordKind.Send)
            {
                if (!TryCall(batch, first++, record, clients[0], send))
                    return false;
                continue;
            }

            var excluded = record.SkipTexts();
            if (record.IsMalformed)
                return false;
            var end = first + 1;
            while (end < batch.Count && Excludes(batch[end].Payload.Span, excluded))
                end++;
            QueueRun(new RecordRun(batch, first, end), clients, excluded, send);
            first = end;
        }

        return true;
    }

    public void Change(HubClient client, string group, RecordKind change)
    {
        if (change == RecordKind.AddToGroup)
            members.Join(client, group);
        else
            members.Leave(client, group);
    }

    private static bool Excludes(ReadOnlySpan<byte> payload, ReadOnlySpan<byte> excluded)
    {
        var record = new RecordReader(payload);
        return record.Kind == RecordKind.Send && record.SkipTexts().SequenceEqual(excluded) && !record.IsMalformed;
    }

    private void QueueRun(RecordRun run, HubClient[] clients, ReadOnlySpan<byte> excluded, HubSend send)
    {
        var ids = RecordReader.ReadTexts(excluded);
        var left = ids.Length == 0 ? null : new HashSet<string>(ids, StringComparer.Ordinal);
        foreach (var client in clients)
        {
            if (left?.Contains(client.Connection.ConnectionId) == true)
                continue;
            var encoded = run.For(client.Protocol, out var missing);
            if (missing > 0)
                limits.ReportMissing(encoded.Protocol, missing);
            client.Queue(encoded, send);
        }

        run.Release();
    }

    // A call is for one connection: its handle has one client here, or none.
    private bool TryCall(MessageBatch batch, int index, RecordReader record, HubClient client, HubSend send)
    {
        var server = record.Text();
        var id = record.Text();
        switch (record.Kind)
        {
            case RecordKind.Invoke when !record.IsMalformed:
                if (record.HasMessage(client.Protocol))
                    calls.Begin(client, server, id);
                else
                    calls.Refuse(client, server, id, record);
                QueueRun(new RecordRun(batch, index, index + 1), [client], excluded: [], send);
                return true;
            case RecordKind.AddToGroup or RecordKind.RemoveFromGroup when record.Text() is var group && !record.IsMalformed:
                Change(client, group, record.Kind);
                calls.Acknowledge(server, id);
                return true;
            default:
                return false;
        }
    }
}
