using System.Text;

namespace MudServer.Game;

/// <summary>Writes all output of the game: lines, prompts and control messages. Only the game loop uses it.</summary>
internal sealed class GameOutput(IOutputBuffer output, TimeProvider timeProvider)
{
    private static readonly TimeSpan LongestFlush = TimeSpan.FromSeconds(5);

    private byte[] _bytes = new byte[1024];

    /// <summary>True sends each message alone and waits for it, for comparison.</summary>
    public bool SendsEachMessage { get; set; }

    public ValueTask LineAsync(Session session, string text) => WriteAsync(session.Handle, text, "\r\n", header: null);

    public async ValueTask LinesAsync(Session session, string text)
    {
        foreach (var line in text.Split('\n'))
            await LineAsync(session, line.TrimEnd('\r'));
    }

    /// <summary>Writes a line for all players in a room. It crosses a broker once, and the last hop knows the members of the group.</summary>
    public ValueTask RoomLineAsync(Room room, string text, Player? except = null)
    {
        var header = except is null ? null : new MessageHeader { ExcludedConnections = [except.Session.Handle] };
        return WriteAsync(room.Group, text, "\r\n", header);
    }

    public ValueTask PromptAsync(Session session) => WriteAsync(session.Handle, "> ", string.Empty, MessageHeader.Prompt);

    public ValueTask ControlAsync(Session session, ControlMessage control) => WriteAsync(session.Handle, control.ToPayload(), MessageHeader.Control);

    private ValueTask WriteAsync(OutputHandle handle, string text, string ending, MessageHeader? header)
    {
        var most = Encoding.UTF8.GetMaxByteCount(text.Length + ending.Length);
        if (_bytes.Length < most)
            _bytes = new byte[most];
        var length = Encoding.UTF8.GetBytes(text, _bytes);
        length += Encoding.UTF8.GetBytes(ending, _bytes.AsSpan(length));
        return WriteAsync(handle, _bytes.AsMemory(0, length), header);
    }

    private ValueTask WriteAsync(OutputHandle handle, ReadOnlyMemory<byte> payload, MessageHeader? header)
    {
        var written = output.WriteAsync(handle, payload, header);
        return SendsEachMessage ? WriteAndFlushAsync(written, handle) : written;
    }

    private async ValueTask WriteAndFlushAsync(ValueTask written, OutputHandle handle)
    {
        await written;
        try
        {
            await output.FlushAsync(handle).AsTask().WaitAsync(LongestFlush, timeProvider);
        }
        catch (OutputDeliveryException)
        {
            // The client has disconnected. The buffer has counted the loss, and the game will get the message of the disconnect.
        }
        catch (TimeoutException)
        {
            // The broker is unavailable. To wait for each further message of this command would stop the whole game.
            SendsEachMessage = false;
        }
    }
}
