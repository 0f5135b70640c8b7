namespace BatchKit.Broadcast;

/// <summary>What a received record is.</summary>
public enum RecordKind
{
    /// <summary>A line, or what the listener's <see cref="IRecordCutter"/> cut, or a WebSocket's text message.</summary>
    Data = 0,

    /// <summary>A WebSocket's binary message.</summary>
    Binary = 1,

    /// <summary>A telnet client's GMCP message: its package name, a space, and its JSON.</summary>
    Gmcp = 2,

    /// <summary>A telnet line above <see cref="BroadcastOptions.MaxRecordBytes"/>, thrown away; its payload is empty.</summary>
    TooLong = 3,
}
