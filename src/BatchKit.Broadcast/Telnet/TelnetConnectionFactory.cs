using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Telnet;

/// <summary>Makes telnet connections, and what reads them.</summary>
internal static class TelnetConnectionFactory
{
    /// <summary>Makes a connection and sends it the server's offers.</summary>
    public static (ClientConnection Connection, IRecordReader Reader) Create(
        OutputHandle handle,
        ConnectionOrigin origin,
        SendQueue output,
        BroadcastOptions options,
        TelnetOptions telnet,
        TimeProvider timeProvider)
    {
        var ending = telnet.SendsGoAhead ? PromptEnding.GoAhead : PromptEnding.None;
        var format = WireFormat.Telnet(telnet.InitialCharset, ending, takesGmcp: false);
        var connection = new ClientConnection(handle, ClientProtocol.Telnet, origin, output, format, timeProvider)
        {
            Terminal = new TelnetTerminal { Charset = telnet.InitialCharset },
            Prompts = telnet.RepeatsPrompt ? new TelnetPrompts() : null,
        };
        var negotiation = new TelnetNegotiation(connection, telnet);
        negotiation.Start();
        return (connection, new TelnetRecordReader(connection, negotiation, options.MaxRecordBytes, timeProvider));
    }
}
