namespace BatchKit.Broadcast.Receiving;

/// <summary>Why a client's input ended.</summary>
internal enum InboundEnd
{
    /// <summary>The client ended its sending side in order, and may still read.</summary>
    Finished = 0,

    /// <summary>The client closed the connection in order, as by a WebSocket's close frame; it reads no more.</summary>
    Closed = 1,

    /// <summary>The connection broke, or was ended from this side.</summary>
    Lost = 2,

    /// <summary>It broke its protocol's rules or a limit, and was told so where the protocol has words for it.</summary>
    ProtocolError = 3,
}
