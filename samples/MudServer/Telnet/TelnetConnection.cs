using System.Net.Sockets;
using System.Text;
using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Telnet;

/// <summary>One client: reads its lines into the input buffer, and sends what the transport queues.</summary>
internal sealed class TelnetConnection : IDisposable
{
    private readonly Socket _socket;
    private readonly IOutputBuffer _input;
    private readonly TelnetSettings _settings;
    private readonly CancellationTokenSource _aborted = new();
    private readonly PromptKeeper _prompts;
    private readonly SendQueue _queue;

    public TelnetConnection(OutputHandle handle, Socket socket, IOutputBuffer input, TelnetSettings settings)
    {
        Handle = handle;
        _socket = socket;
        _input = input;
        _settings = settings;
        _prompts = new PromptKeeper(settings.SendsGoAhead);
        _queue = new SendQueue(socket, settings.MaxQueuedBytes);
    }

    public OutputHandle Handle { get; }

    /// <summary>Reads and writes until both sides are done, or it is aborted.</summary>
    public async Task RunAsync()
    {
        var writing = WriteAsync();
        await TellAsync(InputKind.Connected);
        var arrival = WatchArrivalAsync();
        var isFinished = await ReadAsync();
        if (isFinished && !writing.IsCompleted)
        {
            await TellAsync(InputKind.Finished);
            _aborted.CancelAfter(_settings.CloseTimeout);
        }
        else
        {
            await _aborted.CancelAsync();
        }

        await writing;
        await _aborted.CancelAsync();
        await arrival;
        await TellAsync(InputKind.Gone);
    }

    /// <summary>Queues a run of a batch's messages, but for those that exclude this connection.</summary>
    /// <param name="isLast">True when nothing follows in the batch, so that the prompt comes back behind it.</param>
    public QueueResult TryAdd(MessageBatch batch, Range messages, bool isLast)
    {
        return _queue.TryAdd((this, batch, messages, isLast), static (state, output) =>
        {
            var (connection, batch, messages, isLast) = state;
            for (var index = messages.Start.Value; index < messages.End.Value; index++)
            {
                var message = batch[index];
                if (message.Kind != MessageKind.Control && message.Header?.ExcludedConnections.Contains(connection.Handle) is not true)
                    connection._prompts.Append(output, message);
            }

            if (isLast)
                connection._prompts.End(output);
        });
    }

    /// <summary>Says a last line and closes.</summary>
    public void Close(string line)
    {
        Say(line);
        Close();
    }

    /// <summary>Closes after what is queued.</summary>
    public void Close() => _queue.Complete();

    /// <summary>Closes at once: for a client that does not read.</summary>
    public void Abort()
    {
        try
        {
            _aborted.Cancel();
        }
        catch (ObjectDisposedException)
        {
            // It ended by itself meanwhile.
        }
    }

    public void Dispose()
    {
        _socket.Dispose();
        _queue.Dispose();
        _aborted.Dispose();
    }

    private void Say(string line) =>
        _queue.TryAdd(line, static (line, output) => Encoding.UTF8.GetBytes($"\r\n{line}\r\n", output));

    /// <summary>Tells the client when the game cannot be told of it: a gateway may be up without one.</summary>
    private async Task WatchArrivalAsync()
    {
        try
        {
            var arrival = _input.FlushAsync(Handle).AsTask();
            if (await Task.WhenAny(arrival, Task.Delay(_settings.CloseTimeout, _aborted.Token)) != arrival)
                Say("The island is hard to make out just now. Hold on.");
            await arrival.WaitAsync(_aborted.Token);
        }
        catch (OutputDeliveryException)
        {
            Close("The island is not there just now. Come back in a minute.");
        }
        catch (OperationCanceledException)
        {
            // The client has left: nobody waits any more.
        }
    }

    /// <summary>True when the client ended its side in order; false when the connection broke or was closed from here.</summary>
    private async Task<bool> ReadAsync()
    {
        var reader = new TelnetLineReader(_settings.MaxLineBytes);
        var bytes = new byte[4096];
        try
        {
            while (true)
            {
                var count = await _socket.ReceiveAsync(bytes, _aborted.Token);
                if (count == 0)
                    return true;
                await TakeAsync(reader, bytes.AsMemory(0, count));
            }
        }
        catch (Exception exception) when (exception is SocketException or OperationCanceledException or ObjectDisposedException)
        {
            return false;
        }
    }

    private async ValueTask TakeAsync(TelnetLineReader reader, ReadOnlyMemory<byte> bytes)
    {
        while (true)
        {
            var rest = bytes.Span;
            var result = reader.Read(ref rest, out var line);
            bytes = bytes[^rest.Length..];
            if (result == TelnetLineResult.Incomplete)
                return;
            _prompts.NoteLine();
            var kind = result == TelnetLineResult.Line ? InputKind.Line : InputKind.LineTooLong;
            await _input.WriteAsync(Handle, Encoding.UTF8.GetBytes(line), InputMessage.HeaderFor(kind), _aborted.Token);
        }
    }

    private async Task WriteAsync()
    {
        try
        {
            await _queue.RunAsync(_aborted.Token);
            _socket.Shutdown(SocketShutdown.Send);

            // Closing with input unread would reset the connection, and the client might lose its last lines: the reader reads to the end.
            _aborted.CancelAfter(_settings.CloseTimeout);
        }
        catch (Exception exception) when (exception is SocketException or OperationCanceledException or ObjectDisposedException)
        {
            await _aborted.CancelAsync();
        }
        finally
        {
            _queue.Complete();
        }
    }

    private async ValueTask TellAsync(InputKind kind)
    {
        try
        {
            await _input.WriteAsync(Handle, ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(kind), CancellationToken.None);
        }
        catch (Exception exception) when (exception is ObjectDisposedException or OutputOverflowException)
        {
            // The server stops, or the game has been away for so long that the input buffer is full: it will forget this node's sessions.
        }
    }
}
