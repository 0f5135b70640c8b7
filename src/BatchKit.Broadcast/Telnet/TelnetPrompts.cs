using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Keeps a telnet client's prompt last: a line that arrives while it shows starts anew below it, and the prompt follows.</summary>
internal sealed class TelnetPrompts
{
    private bool _isShown;

    /// <summary>Adds one message to what the client gets.</summary>
    /// <param name="connection">The client.</param>
    /// <param name="run">The message, encoded.</param>
    /// <param name="isPrompt">True for a prompt.</param>
    /// <param name="composer">Takes the bytes.</param>
    /// <param name="tally">Counts them.</param>
    public void Add(ClientConnection connection, in OutputRun run, bool isPrompt, OutputComposer composer, ref DeliveryTally tally)
    {
        composer.Add(connection, run, ref tally);
        _isShown = isPrompt;
    }

    /// <summary>Ends what the client gets in one send: brings the prompt back.</summary>
    public void End(ClientConnection connection, OutputComposer composer, ref DeliveryTally tally)
    {
        if (_isShown)
            composer.Flush(connection, ref tally);
    }
}
