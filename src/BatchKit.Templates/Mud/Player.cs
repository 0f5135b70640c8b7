using BatchKit;
using BatchKit.Broadcast;

namespace MudGame;

/// <summary>One player's connection. The first line is the player's name, and each line after it is a command.</summary>
internal sealed class Player(ClientConnection connection, IOutputBuffer output, Room room, MudSettings settings) : IConnectionHandler
{
    private const int MaxNameLength = 20;
    private const string Help = "Commands: look, say <text>, echo <text>, @dolist <items>=<command>, quit\r\nTry: @dolist 1..1000=echo line ##";

    private string? _name;
    private bool _isLeaving;
    private bool _isInList;

    public async ValueTask StartAsync(CancellationToken cancellationToken)
    {
        await TellAsync($"{settings.Welcome}\r\nWhat is your name?", cancellationToken);
        await PromptAsync(cancellationToken);
    }

    // A scope for this player is open while this method runs, so all output that one read causes is sent as one message.
    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        for (var index = 0; index < records.Length && !_isLeaving; index++)
        {
            var record = records.Span[index];
            if (record.Kind == RecordKind.TooLong)
                await TellAsync("That line is too long.", cancellationToken);
            else if (record.Kind == RecordKind.Data)
                await TakeAsync(record.GetText().Trim(), cancellationToken);
        }

        if (!_isLeaving)
            await PromptAsync(cancellationToken);
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        Leave();
        return default;
    }

    private ValueTask TakeAsync(string line, CancellationToken cancellationToken) =>
        _name is null ? EnterAsync(line, cancellationToken) : RunAsync(line, cancellationToken);

    private async ValueTask EnterAsync(string name, CancellationToken cancellationToken)
    {
        if (name.Length is 0 or > MaxNameLength || !name.All(char.IsLetterOrDigit))
        {
            await TellAsync($"A name has 1 to {MaxNameLength} letters and digits. What is your name?", cancellationToken);
        }
        else if (!await room.TryEnterAsync(name, connection.Handle, cancellationToken))
        {
            await TellAsync($"{name} is here already. What is your name?", cancellationToken);
        }
        else
        {
            _name = name;
            await TellAsync($"{room.Description}\r\n{Help}", cancellationToken);
        }
    }

    // Add your own commands here.
    private async ValueTask RunAsync(string line, CancellationToken cancellationToken)
    {
        var words = line.Split(' ', 2, StringSplitOptions.TrimEntries);
        var rest = words.Length > 1 ? words[1] : "";
        switch (words[0].ToLowerInvariant())
        {
            case "":
                break;
            case "look":
                await TellAsync(room.Description, cancellationToken);
                break;
            case "say":
                await TellAsync($"You say, \"{rest}\"", cancellationToken);
                await room.TellOthersAsync(connection.Handle, $"{_name} says, \"{rest}\"", cancellationToken);
                break;
            case "echo":
                await TellAsync(rest, cancellationToken);
                break;
            case "@dolist" when !_isInList:
                await RunListAsync(rest, cancellationToken);
                break;
            case "quit":
                Leave();
                await TellAsync("Come again.", cancellationToken);
                output.Write(connection.Handle, ControlMessage.Close);
                break;
            default:
                await TellAsync(Help, cancellationToken);
                break;
        }
    }

    private async ValueTask RunListAsync(string arguments, CancellationToken cancellationToken)
    {
        if (arguments.Split('=', 2, StringSplitOptions.TrimEntries) is not [var list, var command])
        {
            await TellAsync("Write @dolist <items>=<command>. In the command, ## is the item.", cancellationToken);
            return;
        }

        var items = ItemsOf(list).Take(settings.MaxListItems + 1).ToArray();
        if (items.Length > settings.MaxListItems)
        {
            await TellAsync($"A list has at most {settings.MaxListItems} items.", cancellationToken);
            return;
        }

        // Lists do not nest, because one line could otherwise run a command a million times.
        _isInList = true;
        // With one scope around the loop, the commands' output is sent as one message for each player or group instead of a thousand.
        using (output.BeginBufferingScope())
        {
            var left = settings.MaxListCharacters;
            for (var index = 0; index < items.Length && !_isLeaving; index++)
            {
                var line = command.Replace("##", items[index], StringComparison.Ordinal);
                if ((left -= line.Length) < 0)
                {
                    await TellAsync($"The commands of a list have at most {settings.MaxListCharacters} characters together.", cancellationToken);
                    break;
                }

                await RunAsync(line, cancellationToken);
            }
        }

        _isInList = false;
    }

    // Called when the player quits and when the connection ends.
    private void Leave()
    {
        if (_name is not null && !_isLeaving)
            room.Leave(_name, connection.Handle);
        _isLeaving = true;
    }

    /// <summary>The items of a list: words separated by spaces, or a range of numbers such as 1..1000.</summary>
    private static IEnumerable<string> ItemsOf(string list) =>
        list.Split("..") is [var first, var last] && ushort.TryParse(first, out var from) && ushort.TryParse(last, out var to) && from <= to
            ? Enumerable.Range(from, to - from + 1).Select(number => $"{number}")
            : list.Split(' ', StringSplitOptions.RemoveEmptyEntries);

    private ValueTask TellAsync(string line, CancellationToken cancellationToken) =>
        output.WriteAsync(connection.Handle, $"{line}\r\n", cancellationToken: cancellationToken);

    private ValueTask PromptAsync(CancellationToken cancellationToken) =>
        output.WriteAsync(connection.Handle, "> ", MessageHeader.Prompt, cancellationToken);
}
