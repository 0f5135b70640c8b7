using BatchKit.Broadcast.Telnet;

namespace BatchKit.Broadcast;

/// <summary>Handles what one client sends. Each connection has its own handler; its members are called one at a time.</summary>
/// <remarks>
/// The handler runs on the thread that read the socket: return soon, or await. While it runs, nothing more is read from this client, so a slow handler delays
/// only its own client. An exception disconnects the client and is logged: the client
/// gets the output that was sent before it. Each call is awaited before the next, even when the connection has ended and its place is free again.
/// </remarks>
public interface IConnectionHandler
{
    /// <summary>
    /// True when clients must authenticate: one that is not authenticated within <see cref="BroadcastOptions.AuthenticationTimeout"/> is disconnected. False by default. Read once, before the first call.
    /// </summary>
    /// <remarks>A client is authenticated when you call <see cref="ClientConnection.MarkAuthenticated"/>, when its WebSocket request had an authenticated user, or when it joins its first group.</remarks>
    bool RequiresAuthentication => false;

    /// <summary>Called first, when the client is connected. From now on it can get output and join groups.</summary>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    ValueTask StartAsync(CancellationToken cancellationToken) => default;

    /// <summary>Handles the records of one read, in order.</summary>
    /// <remarks>A buffering scope for the connection's handle is open around the call, so all replies to one read leave in one write.</remarks>
    /// <param name="records">At least one record. The records and their bytes are valid until the returned task has ended; copy what you need after that.</param>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken);

    /// <summary>Called when the client has ended its sending side, but may still read.</summary>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    /// <returns>
    /// False, the default, to close the connection after its queued output. True to keep it open for later answers: the application must then close it, and
    /// it is closed anyway after <see cref="BroadcastOptions.CloseTimeout"/>.
    /// </returns>
    ValueTask<bool> FinishAsync(CancellationToken cancellationToken) => default;

    /// <summary>Called last, once for each handler that was created: the connection is gone and has left its groups.</summary>
    /// <param name="reason">Why the connection ended.</param>
    ValueTask EndAsync(DisconnectReason reason) => default;
}

/// <summary>One record that a client sent.</summary>
/// <param name="Payload">Its bytes, without delimiters; for a telnet client in UTF-8. Valid until the handler's task has ended.</param>
/// <param name="Kind">The kind of record.</param>
public readonly record struct ReceivedRecord(ReadOnlyMemory<byte> Payload, RecordKind Kind = RecordKind.Data)
{
    /// <summary>Returns the payload as text that is safe to show to other clients: it has passed the filter <see cref="PlayerText"/>.</summary>
    /// <remarks>
    /// It filters whatever the kind, the listener's or the endpoint's <c>FiltersText</c> and the client's protocol are. A string inside the text that your code decodes again, such as one in JSON
    /// with <c>\u001b</c>, needs <see cref="PlayerText.Filter(string, bool)"/> after its decoding; those of GMCP and MSDP records were filtered before, unless <c>FiltersText</c> is off.
    /// </remarks>
    /// <param name="keepsLineFeeds">True to keep line feeds, for a text that you split into lines afterwards.</param>
    public string GetText(bool keepsLineFeeds = false) => PlayerText.Decode(Payload.Span, keepsLineFeeds);
}

/// <summary>The kind of a received record.</summary>
public enum RecordKind
{
    /// <summary>A line, a record of the listener's <see cref="IRecordCutter"/>, or a WebSocket's text message.</summary>
    Data = 0,

    /// <summary>A WebSocket's binary message, unchanged. An endpoint for text refuses them unless <c>WebSocketEndpointOptions.AcceptsBinary</c> is true.</summary>
    Binary = 1,

    /// <summary>A telnet client's GMCP message: its package name, a space, and its JSON. Its strings have passed the listener's filter, their escape sequences too.</summary>
    Gmcp = 2,

    /// <summary>A telnet line above <see cref="BroadcastOptions.MaxRecordBytes"/>. It was discarded; the payload is empty.</summary>
    TooLong = 3,

    /// <summary>A telnet client's MSDP message, whose names and values have passed the listener's filter; <see cref="TelnetMessages.ReadMsdp"/> reads it.</summary>
    Msdp = 4,
}
