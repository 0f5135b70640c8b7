using System.Text;
using BatchKit;
using BatchKit.Broadcast;

namespace ChatServer;

/// <summary>One client. It joins the group of all clients, and each of its lines goes to that group.</summary>
internal sealed class ChatMember(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    private const string Group = "everybody";

    private static readonly OutputHandle Everybody = OutputHandle.Named(Group);

    public ValueTask StartAsync(CancellationToken cancellationToken)
    {
        output.Write(connection.Handle, ControlMessage.JoinGroup(Group));
        output.Write(Everybody, $"{connection.Handle} is here.\r\n");
        return default;
    }

    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        using var lines = output.BeginWriting(Everybody);
        foreach (var record in records.Span)
        {
            if (record.Kind == RecordKind.Data)
                lines.Write($"{connection.Handle}: {record.GetText()}\r\n");
        }

        return default;
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        output.TryWrite(Everybody, Encoding.UTF8.GetBytes($"{connection.Handle} is gone ({reason}).\r\n"));
        return default;
    }
}
