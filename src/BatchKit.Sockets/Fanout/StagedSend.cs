using System.Runtime.InteropServices;
using BatchKit.Broadcast.Connections;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Fanout;

/// <summary>The batches of one send, sorted by connection, so that each connection gets one write. One thread stages them; then several send ranges of the connections.</summary>
internal sealed class StagedSend(SendQueueLimits limits)
{
    // Enough for the processor to load the memory of many connections at once, and few enough to stay in its cache.
    private const int PrefetchedAtOnce = 16;

    private readonly List<BatchDelivery> _deliveries = [];
    private readonly Dictionary<ClientConnection, int> _places = [];
    private readonly List<StagedConnection> _staged = [];
    private readonly List<StagedPart> _parts = [];
    private int _deliveryCount;

    // A send of one batch to one group needs no sorting: the snapshot of its members is the order.
    private ClientConnection[]? _members;
    private bool _isLast;

    /// <summary>How many connections get something.</summary>
    public int Count => _members?.Length ?? _staged.Count;

    /// <summary>Stages the only batch of a send for a group's members.</summary>
    /// <param name="batch">The batch.</param>
    /// <param name="members">The connections that get it.</param>
    /// <param name="isLast">True when they are closed after it.</param>
    public void StageOnly(MessageBatch batch, ClientConnection[] members, bool isLast = false)
    {
        _isLast = isLast;
        AddDelivery(batch, isShared: true);
        _members = members;
    }

    /// <summary>Stages one of several batches for a group's members.</summary>
    public void Stage(MessageBatch batch, ClientConnection[] members)
    {
        if (members.Length == 0)
            return;
        var delivery = AddDelivery(batch, isShared: true);
        foreach (var member in members)
            Add(member, delivery, batch.Count);
    }

    /// <summary>Stages a batch, or its first messages, for one connection; the others count as dropped.</summary>
    public void Stage(MessageBatch batch, ClientConnection connection, int messages, bool closes)
    {
        Add(connection, AddDelivery(batch, isShared: false), messages);
        if (closes)
            CollectionsMarshal.AsSpan(_staged)[_places[connection]].IsClosed = true;
    }

    /// <summary>True when the connection is closed after what was staged for it.</summary>
    public bool IsClosed(ClientConnection connection) => _places.TryGetValue(connection, out var place) && _staged[place].IsClosed;

    /// <summary>Sends to a range of the connections. Ranges may be sent in parallel, each with a composer and tally of its own.</summary>
    public void Send(Range range, OutputComposer composer, ref DeliveryTally tally)
    {
        var (offset, length) = range.GetOffsetAndLength(Count);
        for (var index = offset; index < offset + length; index++)
        {
            if ((index - offset) % PrefetchedAtOnce == 0)
                Prefetch(index, Math.Min(index + PrefetchedAtOnce, offset + length));
            if (_members is not null)
                SendWhole(_members[index], composer, ref tally);
            else
                SendParts(_staged[index], composer, ref tally);
        }
    }

    public void Clear()
    {
        for (var index = 0; index < _deliveryCount; index++)
            _deliveries[index].Release();
        _deliveryCount = 0;
        _places.Clear();
        _staged.Clear();
        _parts.Clear();
        _members = null;
    }

    private int AddDelivery(MessageBatch batch, bool isShared)
    {
        if (_deliveryCount == _deliveries.Count)
            _deliveries.Add(new BatchDelivery(limits));
        var delivery = _deliveryCount++;
        _deliveries[delivery].Begin(batch, isShared);
        return delivery;
    }

    private void Add(ClientConnection connection, int delivery, int messages)
    {
        ref var place = ref CollectionsMarshal.GetValueRefOrAddDefault(_places, connection, out var isStaged);
        var part = _parts.Count;
        _parts.Add(new StagedPart(delivery, messages, Next: -1));
        if (!isStaged)
        {
            place = _staged.Count;
            _staged.Add(new StagedConnection(connection, part));
            return;
        }

        ref var staged = ref CollectionsMarshal.AsSpan(_staged)[place];
        var parts = CollectionsMarshal.AsSpan(_parts);
        parts[staged.LastPart] = parts[staged.LastPart] with { Next = part };
        staged.LastPart = part;
    }

    /// <summary>Loads the memory of some connections. Without it the processor would wait for each separately, because the system calls between them evict its nearest caches.</summary>
    private void Prefetch(int first, int end)
    {
        for (var index = first; index < end; index++)
            (_members is not null ? _members[index] : _staged[index].Connection).Output.Prefetch();
    }

    private void SendWhole(ClientConnection connection, OutputComposer composer, ref DeliveryTally tally)
    {
        _deliveries[0].Send(connection, isAlone: true, composer: composer, tally: ref tally);
        Finish(connection, _isLast, composer, ref tally);
    }

    private void SendParts(in StagedConnection staged, OutputComposer composer, ref DeliveryTally tally)
    {
        for (var next = staged.FirstPart; next >= 0; next = _parts[next].Next)
        {
            var part = _parts[next];
            var isAlone = staged.FirstPart == staged.LastPart;
            _deliveries[part.Delivery].Send(staged.Connection, part.Messages, isAlone, composer, ref tally);
        }

        Finish(staged.Connection, staged.IsClosed, composer, ref tally);
        if (staged.IsClosed)
            staged.Connection.Close();
    }

    private static void Finish(ClientConnection connection, bool isLast, OutputComposer composer, ref DeliveryTally tally)
    {
        // No one answers a prompt on a connection that is being closed.
        if (!isLast)
            connection.Prompts?.End(composer);
        composer.Flush(connection, ref tally);
    }
}

/// <summary>What one connection gets in one send: a chain of parts, and whether it is closed after them.</summary>
internal struct StagedConnection(ClientConnection connection, int firstPart)
{
    public ClientConnection Connection { get; } = connection;

    public int FirstPart { get; } = firstPart;

    public int LastPart { get; set; } = firstPart;

    public bool IsClosed { get; set; }
}

/// <summary>One batch's share of what a connection gets.</summary>
/// <param name="Delivery">The index of the batch's delivery.</param>
/// <param name="Messages">How many of its messages, from the first.</param>
/// <param name="Next">The index of the next part, or -1.</param>
internal readonly record struct StagedPart(int Delivery, int Messages, int Next);
