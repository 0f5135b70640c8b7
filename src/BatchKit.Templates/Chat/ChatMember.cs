using BatchKit;
using BatchKit.Broadcast;

namespace ChatRooms;

/// <summary>One browser's connection. Its first message is the member's name, and each message after it is a line for all members.</summary>
internal sealed class ChatMember(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    private const int MaxNameLength = 30;
    private const string Group = "lobby";

    private static readonly OutputHandle Lobby = OutputHandle.Named(Group);

    private string? _name;

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        for (var index = 0; index < records.Length; index++)
        {
            var record = records.Span[index];
            var text = record.Kind == RecordKind.Data ? record.GetText().Trim() : "";
            if (text.Length == 0)
                continue;
            if (_name is null)
                await JoinAsync(text, cancellationToken);
            else
                await output.WriteAsync(Lobby, $"{_name}: {text}", cancellationToken: cancellationToken);
        }
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        if (_name is not null)
            output.TryWrite(Lobby, $"{_name} left.");
        return default;
    }

    private async ValueTask JoinAsync(string name, CancellationToken cancellationToken)
    {
        // Letters and digits are seen: with other characters a member could have an invisible name, or one that looks like another member's line.
        if (name.Length > MaxNameLength || !name.All(char.IsLetterOrDigit))
        {
            await output.WriteAsync(connection.Handle, $"A name has 1 to {MaxNameLength} letters and digits. What is your name?", cancellationToken: cancellationToken);
            return;
        }

        _name = name;
        output.Write(connection.Handle, ControlMessage.JoinGroup(Group));
        await output.WriteAsync(connection.Handle, $"Welcome, {_name}.", cancellationToken: cancellationToken);
        await output.WriteAsync(Lobby, $"{_name} joined.", new MessageHeader { ExcludedConnections = [connection.Handle] }, cancellationToken);
    }
}
