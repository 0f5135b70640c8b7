using System.Text;
using System.Threading.Channels;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Notes what its client sends, and does with it what a test says.</summary>
internal sealed class ScriptedHandler(ClientConnection connection, TcpServer server) : IConnectionHandler
{
    private readonly Channel<string> _records = Channel.CreateUnbounded<string>();
    private readonly TaskCompletionSource _finished = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<DisconnectReason> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public ClientConnection Connection { get; } = connection;

    public ChannelReader<string> Records => _records.Reader;

    public Task Finished => _finished.Task;

    public Task<DisconnectReason> Ended => _ended.Task;

    public ValueTask StartAsync(CancellationToken cancellationToken)
    {
        server.OnStart();
        return default;
    }

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        foreach (var record in records.ToArray())
        {
            var text = Encoding.UTF8.GetString(record.Payload.Span);
            await server.OnRecord(this, text, cancellationToken);
            _records.Writer.TryWrite(text);
        }
    }

    public ValueTask<bool> FinishAsync(CancellationToken cancellationToken)
    {
        _finished.TrySetResult();
        return ValueTask.FromResult(server.StaysOpen);
    }

    public ValueTask EndAsync(DisconnectReason reason)
    {
        _ended.TrySetResult(reason);
        return default;
    }

    public void Write(string text) => server.Output.Write(Connection.Handle, Encoding.UTF8.GetBytes(text));
}
