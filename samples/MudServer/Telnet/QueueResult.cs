namespace MudServer.Telnet;

/// <summary>What became of bytes that were to be queued for a connection.</summary>
internal enum QueueResult
{
    /// <summary>They will be sent.</summary>
    Added = 0,

    /// <summary>The client has left too much unread: the queue takes no more.</summary>
    Full = 1,

    /// <summary>The connection is closed or about to.</summary>
    Completed = 2,
}
