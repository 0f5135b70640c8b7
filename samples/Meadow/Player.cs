using BatchKit;
using BatchKit.Broadcast;

namespace Meadow;

/// <summary>One player: <c>@x y</c> moves, anything else is said.</summary>
internal sealed class Player(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    // Below the numbers of the sheep.
    private readonly long _number = -connection.Handle.Number;

    public ValueTask StartAsync(CancellationToken cancellationToken)
    {
        output.Write(connection.Handle, ControlMessage.JoinGroup(Flock.Everyone.Name!));
        return default;
    }

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        using var scope = output.BeginBufferingScope(Flock.Everyone);
        foreach (var record in records.ToArray())
        {
            var text = record.GetText();
            if (!text.StartsWith('@'))
                await output.WriteAsync(Flock.Everyone, text, cancellationToken: cancellationToken);
            else if (text[1..].Split(' ') is [var x, var y] && ushort.TryParse(x, out var across) && ushort.TryParse(y, out var down))
                output.WriteLatest(Flock.Everyone, _number, Flock.At(_number, 0, across, down));
        }
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        // Out of sight.
        output.WriteLatest(Flock.Everyone, _number, Flock.At(_number, 0, -100, -100));
        return default;
    }
}
