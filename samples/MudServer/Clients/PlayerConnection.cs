using System.Text;
using BatchKit.Broadcast;
using MudServer.Game;
using MudServer.Hosting;

namespace MudServer.Clients;

/// <summary>One client, by telnet or WebSocket. It writes the client's lines, and when the client connects and disconnects, to the input buffer.</summary>
/// <param name="connection">The client's connection.</param>
/// <param name="inputs">The buffers that carry input to the games.</param>
/// <param name="arrival">Tells the client when the game is unavailable.</param>
/// <param name="clients">The clients of this process.</param>
/// <param name="timeProvider">Measures the pace of its lines.</param>
/// <param name="game">The game's input; null at a gateway, whose game is another process.</param>
internal sealed class PlayerConnection(
    ClientConnection connection, ShardInputs inputs, ArrivalWatch arrival, ConnectedClients clients, TimeProvider timeProvider, GameInput? game = null) : IConnectionHandler
{
    // The most lines of one client that wait at the game. It sends the next lines when the game has run them all.
    private const int MaxWaitingLines = 8;

    // The most lines of one WebSocket message; the rest is dropped.
    private const int MaxLinesOfMessage = 100;

    private readonly CancellationTokenSource _gone = new();
    private readonly LinePace _pace = new(timeProvider);

    // Held while lines are taken, so that the game gets no line after the notice that this client leaves.
    private readonly SemaphoreSlim _taking = new(1, 1);

    private bool _isLeaving;
    private Task _watching = Task.CompletedTask;
    private int _waitingLines;
    private int _shard = ShardInputs.Lobby;

    /// <summary>True: a client is authenticated when the game has accepted its name and adds it to the group of its room.</summary>
    public bool RequiresAuthentication => true;

    /// <summary>True when the game has accepted its name.</summary>
    public bool IsPlaying => connection.IsAuthenticated;

    public async ValueTask StartAsync(CancellationToken cancellationToken)
    {
        clients.Add(this);
        await TellAsync(InputKind.Connected);
        _watching = arrival.WatchAsync(connection, _gone.Token);
    }

    public async ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        await _taking.WaitAsync(cancellationToken);
        try
        {
            await TakeAsync(records, cancellationToken);
        }
        finally
        {
            _taking.Release();
        }
    }

    /// <summary>Tells the game that this gateway ends. The game answers the lines that it has, sends the client to another gateway, and closes the connection.</summary>
    public async Task LeaveAsync()
    {
        await _taking.WaitAsync();
        if (!_isLeaving)
            await TellAsync(InputKind.Leaving);
        _isLeaving = true;
        _taking.Release();
    }

    /// <summary>Keeps the connection open: the game closes it after its answers.</summary>
    public async ValueTask<bool> FinishAsync(CancellationToken cancellationToken)
    {
        await TellAsync(InputKind.Finished);
        return true;
    }

    public async ValueTask EndAsync(DisconnectReason reason)
    {
        await _gone.CancelAsync();
        await _watching;
        await _taking.WaitAsync();
        _isLeaving = true;
        await TellAsync(InputKind.Gone);
        _taking.Release();
        _gone.Dispose();
        clients.Remove(this);
    }

    private async ValueTask TakeAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        for (var index = 0; index < records.Length; index++)
        {
            var record = records.Span[index];
            if (record.Kind == RecordKind.TooLong)
                await TakeLineAsync(line: null, cancellationToken);
            else if (record.Kind == RecordKind.Data)
                await TakeAsync(record.GetText(keepsLineFeeds: true), cancellationToken);
        }
    }

    /// <summary>Splits a WebSocket's message into lines.</summary>
    private async ValueTask TakeAsync(string text, CancellationToken cancellationToken)
    {
        var lines = text.Split('\n', MaxLinesOfMessage + 1);
        foreach (var line in lines.Take(MaxLinesOfMessage))
            await TakeLineAsync(line, cancellationToken);
        if (lines.Length > MaxLinesOfMessage)
            await TakeLineAsync(line: null, cancellationToken);
    }

    /// <param name="line">Null for one that is too long.</param>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    private async ValueTask TakeLineAsync(string? line, CancellationToken cancellationToken)
    {
        await PaceAsync(cancellationToken);
        if (_isLeaving)
            clients.CountLateLines(1);
        else if (line is null)
            await TellAsync(InputKind.LineTooLong);
        else
            await SendAsync(line, cancellationToken);
    }

    private async ValueTask PaceAsync(CancellationToken cancellationToken)
    {
        var early = _pace.Take();
        if (early <= TimeSpan.Zero)
            return;

        // A client that is delayed must not hold up the end of its gateway.
        _taking.Release();
        try
        {
            await Task.Delay(early, timeProvider, cancellationToken);
        }
        finally
        {
            await _taking.WaitAsync(CancellationToken.None);
        }
    }

    private async ValueTask SendAsync(string line, CancellationToken cancellationToken)
    {
        if (game is not null && ++_waitingLines > MaxWaitingLines)
        {
            await inputs[_shard].FlushAsync(connection.Handle, cancellationToken);
            await game.WhenTakenAsync(connection.Handle, cancellationToken);
            _waitingLines = 1;
        }

        // A client is authenticated when a game has accepted its name, and stays with that game.
        if (!connection.IsAuthenticated)
            await MoveAsync(inputs.FindShard(line, _shard));
        await inputs[_shard].WriteAsync(connection.Handle, Encoding.UTF8.GetBytes(line), header: null, cancellationToken);
    }

    private async ValueTask MoveAsync(int shard)
    {
        if (shard == _shard)
            return;
        await TellAsync(InputKind.Gone);
        _shard = shard;
    }

    private async ValueTask TellAsync(InputKind kind)
    {
        try
        {
            await inputs[_shard].WriteAsync(connection.Handle, ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(kind), CancellationToken.None);
        }
        catch (Exception exception) when (exception is ObjectDisposedException or OutputOverflowException)
        {
            // The server stops, or the game was unavailable for so long that the input buffer is full. The game ends this node's sessions when it starts again.
        }
    }
}
