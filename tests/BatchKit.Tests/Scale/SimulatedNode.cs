using System.Buffers.Binary;
using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Tests.Scale;

/// <summary>A process with clients: its receiver hands frames to this last hop, which checks that each client and each room gets every line once, in order.</summary>
internal sealed class SimulatedNode : IBatchTransport, IGroupMembership
{
    // The local route is a game's first, so its partition is too.
    private const int LocalPartition = 0;

    private readonly SimulatedCluster _cluster;
    private readonly List<int> _clients = [];
    private readonly Dictionary<string, Room> _rooms = new(StringComparer.Ordinal);
    private Action<string>? _changed;

    public SimulatedNode(SimulatedCluster cluster, int number)
    {
        _cluster = cluster;
        Number = number;
        Queue = cluster.Broker.Declare(number);
        ClientsOfGames = [.. Enumerable.Range(0, SimulatedCluster.Games).Select(static _ => new List<int>())];
        Receiver = CreateReceiver();
    }

    public int Number { get; }

    public NodeQueue Queue { get; }

    public BatchReceiver Receiver { get; private set; }

    /// <summary>The game that runs in this process; null in a gateway.</summary>
    public SimulatedGame? Game { get; set; }

    /// <summary>This process's clients, by the games that they play.</summary>
    public List<int>[] ClientsOfGames { get; }

    /// <summary>The buffers of players' input, one for each game.</summary>
    public OutputBuffer[] Inputs { get; set; } = [];

    /// <summary>Lines that came for rooms without members here.</summary>
    public long LinesForNoOne { get; private set; }

    /// <summary>False while the process is killed: its frames wait at the broker.</summary>
    public bool IsRunning { get; private set; } = true;

    public bool SendsWithoutBlocking => true;

    public void Connect(int client)
    {
        _clients.Add(client);
        _cluster.Handles[client] = OutputHandle.Connection(Number, _clients.Count);
    }

    public void Receive()
    {
        if (IsRunning)
            Queue.DrainTo(Receiver);
    }

    public void Kill() => IsRunning = false;

    /// <summary>The killed process starts again: it has no clients and no rooms, and remembers no sender.</summary>
    public void Restart()
    {
        foreach (var client in _clients)
            _cluster.Handles[client] = default;
        foreach (var room in _rooms.Keys.ToArray())
        {
            _rooms.Remove(room);
            _changed?.Invoke(room);
        }

        Receiver = CreateReceiver();
        IsRunning = true;
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        HashSet<int>? refused = null;
        for (var index = 0; index < batches.Length; index++)
        {
            var batch = batches.Span[index];
            if (!batch.Handle.IsConnection)
                TakeGroup(batch);
            else if (batch.Handle.Node != Number)
                Game!.TakeInput(batch);
            else if (!TryTakeOutput(batch))
                (refused ??= []).Add(index);
        }

        return refused is null ? default : ValueTask.FromException(Refusal(batches.Length, refused));
    }

    public bool HasMembers(string group) => _rooms.ContainsKey(group);

    public IReadOnlyCollection<string> GetGroups() => _rooms.Keys;

    public IDisposable Watch(Action<string> changed)
    {
        _changed = changed;
        return new Watching(this);
    }

    private BatchReceiver CreateReceiver() => new(
        this,
        new BatchReceiverOptions
        {
            ProducerExpiry = _cluster.Settings.ProducerExpiry,
            IsDeliveredLocally = (producer, handle) => Game is not null && Game.IsDeliveredLocally(producer, handle),
        },
        _cluster.Clock);

    private static BatchSendException Refusal(int batches, HashSet<int> refused)
    {
        ImmutableArray<BatchOutcome> outcomes = [.. Enumerable.Range(0, batches).Select(index => refused.Contains(index) ? BatchOutcome.Refused : BatchOutcome.Acknowledged)];
        return new BatchSendException(outcomes, "A connection is gone.") { DestinationsAreGone = true };
    }

    private bool TryTakeOutput(MessageBatch batch)
    {
        var client = _clients[(int)(batch.Handle.Number & OutputHandle.MaxSequence) - 1];
        if (_cluster.Handles[client] != batch.Handle)
            return false;
        _cluster.LinesOfPartitions[batch.Producer.Partition] += batch.Count;
        foreach (var message in batch)
        {
            if (message.Header is not null)
                Join(client, message.Payload.Span);
            else if (LineBook.IsOfRoom(message.Payload.Span))
                _cluster.TakeRoomLine(client, message.Payload.Span);
            else
                _cluster.Replies.Take(client, message.Payload.Span);
        }

        return true;
    }

    private void Join(int client, ReadOnlySpan<byte> payload)
    {
        Assert.True(ControlMessage.TryRead(payload, out var control));
        if (!_rooms.TryGetValue(control.Group, out var room))
        {
            _rooms.Add(control.Group, room = new Room());
            _changed?.Invoke(control.Group);
        }

        room.Members.Add(client);
    }

    private void TakeGroup(MessageBatch batch)
    {
        if (!_rooms.TryGetValue(batch.Handle.Name!, out var room))
        {
            LinesForNoOne += batch.Producer.Partition == LocalPartition ? 0 : batch.Count;
            return;
        }

        foreach (var message in batch)
        {
            foreach (var member in room.Members)
                _cluster.TakeRoomLine(member, message.Payload.Span);
        }
    }

    private sealed class Room
    {
        public List<int> Members { get; } = [];
    }

    private sealed class Watching(SimulatedNode node) : IDisposable
    {
        public void Dispose() => node._changed = null;
    }
}

/// <summary>The last line that each client has got or sent. A line has the client's or room's number and its own, and the lines of each come in order, without a gap.</summary>
internal sealed class LineBook(int clients)
{
    private readonly int[] _last = new int[clients];

    public long Taken { get; private set; }

    public int LastOf(int client) => _last[client];

    /// <summary>Expects the line behind this one next, from a client that has lost some.</summary>
    public void Skip(int client, int line) => _last[client] = line;

    /// <summary>The number of a room's line, which no client's line has.</summary>
    public static int NumberOfRoom(int room) => ~room;

    public static bool IsOfRoom(ReadOnlySpan<byte> payload) => BinaryPrimitives.ReadInt32LittleEndian(payload) < 0;

    public static void Write(Span<byte> payload, int number, int line)
    {
        BinaryPrimitives.WriteInt32LittleEndian(payload, number);
        BinaryPrimitives.WriteInt32LittleEndian(payload[sizeof(int)..], line);
    }

    public void Take(int client, ReadOnlySpan<byte> payload)
    {
        if (BinaryPrimitives.ReadInt32LittleEndian(payload) != client)
            Assert.Fail($"Client {client} got a line of client {BinaryPrimitives.ReadInt32LittleEndian(payload)}.");
        Take(client, BinaryPrimitives.ReadInt32LittleEndian(payload[sizeof(int)..]));
    }

    public void Take(int client, int line)
    {
        if (line != _last[client] + 1)
            Assert.Fail($"Client {client}: line {line} came behind line {_last[client]}.");
        _last[client] = line;
        Taken++;
    }
}
