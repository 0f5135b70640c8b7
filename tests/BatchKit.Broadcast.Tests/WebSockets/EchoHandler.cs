namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>Sends back what it receives, and remembers how it ended.</summary>
internal class EchoHandler(ClientConnection connection, IOutputBuffer output) : IConnectionHandler
{
    private readonly TaskCompletionSource<DisconnectReason> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public Task<DisconnectReason> Ended => _ended.Task;

    public ClientConnection Connection => connection;

    public IOutputBuffer Output => output;

    public List<ReceivedRecord[]> Calls { get; } = [];

    public virtual ValueTask StartAsync(CancellationToken cancellationToken) => default;

    public virtual ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        Calls.Add(Array.ConvertAll(records.ToArray(), record => record with { Payload = record.Payload.ToArray() }));
        foreach (var record in records.Span)
            output.Write(connection.Handle, record.Payload.Span);
        return default;
    }

    public virtual ValueTask EndAsync(DisconnectReason reason)
    {
        _ended.TrySetResult(reason);
        return default;
    }
}
