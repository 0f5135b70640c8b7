namespace BatchKit.Broadcast;

/// <summary>Why a connection ended.</summary>
public enum DisconnectReason
{
    /// <summary>The client closed it.</summary>
    ClientClosed = 0,

    /// <summary>It broke.</summary>
    ConnectionLost = 1,

    /// <summary>This side closed it, after what was written: by a control message or <see cref="ClientConnection.Close()"/>.</summary>
    Closed = 2,

    /// <summary>This side closed it at once, by <see cref="ClientConnection.Abort()"/>.</summary>
    Aborted = 3,

    /// <summary>It did not read, so that a limit was reached: <see cref="BroadcastOptions.MaxQueuedBytes"/>, <see cref="BroadcastOptions.MaxQueuedMessages"/> or <see cref="BroadcastOptions.SlowConsumerTimeout"/>.</summary>
    SlowConsumer = 4,

    /// <summary>No record came for <see cref="BroadcastOptions.IdleTimeout"/>.</summary>
    Idle = 5,

    /// <summary>It sent what its protocol forbids, or a record above <see cref="BroadcastOptions.MaxRecordBytes"/>.</summary>
    ProtocolError = 6,

    /// <summary>It was not authenticated in time, or sent more than <see cref="BroadcastOptions.MaxUnauthenticatedBytes"/> before.</summary>
    NotAuthenticated = 7,

    /// <summary>The server stops.</summary>
    Stopped = 8,

    /// <summary>The handler threw; the log has the exception.</summary>
    HandlerFailed = 9,
}
