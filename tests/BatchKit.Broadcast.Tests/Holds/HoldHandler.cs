using System.Globalization;
using System.Text;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>Learns a client's number from its first line, and says when it is gone.</summary>
internal sealed class HoldHandler(HoldServer server, ClientConnection connection) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
            server.Announce(int.Parse(Encoding.UTF8.GetString(record.Payload.Span), CultureInfo.InvariantCulture), connection);
        return default;
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        server.End(connection, reason);
        return default;
    }
}
