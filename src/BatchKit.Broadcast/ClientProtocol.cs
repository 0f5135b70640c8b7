namespace BatchKit.Broadcast;

/// <summary>What a client speaks.</summary>
public enum ClientProtocol
{
    /// <summary>Bytes over TCP, cut into records by an <see cref="IRecordCutter"/>; what is written goes out as it is.</summary>
    Tcp = 0,

    /// <summary>Telnet (RFC 854).</summary>
    Telnet = 1,

    /// <summary>WebSocket (RFC 6455), each message one WebSocket message.</summary>
    WebSocket = 2,
}
