namespace BatchKit.Broadcast.WebSockets;

/// <summary>Why a client's message is not taken.</summary>
internal enum MessageFault
{
    /// <summary>It is.</summary>
    None = 0,

    /// <summary>It is longer than it may be.</summary>
    TooLong = 1,

    /// <summary>It is a text that is no UTF-8.</summary>
    InvalidText = 2,
}
