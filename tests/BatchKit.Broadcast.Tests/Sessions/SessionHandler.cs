using BatchKit.Sessions;

namespace BatchKit.Broadcast.Tests.Sessions;

/// <summary>Hands a client's lines to the sessions.</summary>
internal sealed class SessionHandler(ClientConnection connection, SessionTransport sessions) : IConnectionHandler
{
    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.Span)
            sessions.Receive(connection.Handle, record.Payload.Span);
        return default;
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        sessions.Suspend(connection.Handle);
        return default;
    }
}
