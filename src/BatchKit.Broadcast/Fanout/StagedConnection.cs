namespace BatchKit.Broadcast.Fanout;

/// <summary>What one connection gets in one send: a chain of parts, and whether it is closed behind them.</summary>
internal struct StagedConnection(ClientConnection connection, int firstPart)
{
    public ClientConnection Connection { get; } = connection;

    public int FirstPart { get; } = firstPart;

    public int LastPart { get; set; } = firstPart;

    public bool IsClosed { get; set; }
}
