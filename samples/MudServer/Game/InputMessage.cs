using System.Collections.Frozen;
using System.Text;
using BatchKit.Transports;

namespace MudServer.Game;

/// <summary>One message from a connection to the game. A line is a plain message; the header's key names any other kind.</summary>
internal readonly record struct InputMessage(InputKind Kind, string Text)
{
    private static readonly FrozenDictionary<InputKind, MessageHeader> Headers = Enum.GetValues<InputKind>()
        .Where(kind => kind != InputKind.Line)
        .ToFrozenDictionary(kind => kind, kind => new MessageHeader { Key = kind.ToString() });

    /// <summary>True when a game sent it: another one, or this one to itself.</summary>
    public bool IsOfGame => Kind is InputKind.PlayerHere or InputKind.PlayerGone or InputKind.PlayersTold or InputKind.GameStarted or InputKind.PlayerText or InputKind.Check or InputKind.PasswordChecked;

    /// <summary>The header that names the kind; null for a line.</summary>
    public static MessageHeader? HeaderFor(InputKind kind) => Headers.GetValueOrDefault(kind);

    public static InputMessage Read(BatchMessage message)
    {
        var kind = Enum.TryParse<InputKind>(message.Header?.Key, out var named) ? named : InputKind.Line;
        return new InputMessage(kind, Encoding.UTF8.GetString(message.Payload.Span));
    }
}
