using System.Buffers.Binary;
using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>What was written, and what became of it, as seen from outside the buffer.</summary>
internal sealed class Ledger(Schedule schedule, Journal journal, TimeProvider clock)
{
    private readonly List<LedgerMessage> _messages = [];
    private readonly List<LedgerMessage> _held = [];
    private long _now;

    public IReadOnlyList<LedgerMessage> Messages => _messages;

    /// <summary>A moment after all that has happened so far.</summary>
    public long Now => ++_now;

    public long Accepted { get; private set; }

    public long AcceptedBytes { get; private set; }

    public long Undecided { get; private set; }

    public long Acknowledged { get; private set; }

    /// <summary>Dropped before they were accepted, by policy, and counted by the buffer.</summary>
    public long Refused { get; set; }

    /// <summary>Replaced by newer ones while they waited, and counted by the buffer.</summary>
    public long Superseded { get; private set; }

    /// <summary>How many may have been dropped because they were too old.</summary>
    public int MayHaveExpired => _messages.Count(static message => message is { TimeToLive: not null, WasSent: false, Newer: null } && message.IsAccepted != false);

    public LedgerMessage Begin(int handle, int bytes, MessageKind kind, long? key, Gathering? gathering)
    {
        var message = new LedgerMessage(_messages.Count, handle, bytes, kind, gathering, Now) { Key = key };
        _messages.Add(message);
        Undecided++;
        return message;
    }

    /// <summary>Enters what the buffer answered.</summary>
    /// <param name="message">The message.</param>
    /// <param name="isAccepted">Whether it was accepted.</param>
    /// <param name="mayBeHeld">Whether a scope may hold it back.</param>
    public void Decide(LedgerMessage message, bool isAccepted, bool mayBeHeld)
    {
        message.IsAccepted = isAccepted;
        message.DecidedAt = Now;
        Undecided--;
        if (isAccepted)
        {
            message.End = message.Loop is { IsOpen: true } ? message.End : Math.Min(message.End, Now);
            Accepted++;
            AcceptedBytes += message.Bytes;
            if (mayBeHeld)
                _held.Add(message);
            else
                message.QueuedAt = Math.Min(message.QueuedAt, Now);
        }
        else if (message.WasSent)
        {
            journal.Broken($"m{message.Id} was turned away and sent all the same");
        }
    }

    /// <summary>The value of before, if it waits as far as is known.</summary>
    public LedgerMessage? FindOlder(LedgerMessage latest) => _messages.FindLast(
        other => other.Id < latest.Id && other.Handle == latest.Handle && other.Key == latest.Key && other.IsAccepted != false && !other.WasSent && other.Newer is null);

    /// <summary>A latest value took the place of an older one, in every order that there is.</summary>
    public void Supersede(LedgerMessage latest, LedgerMessage older)
    {
        Superseded++;
        older.Newer = latest;
        latest.TakePlaceOf(older);
        _held.Remove(latest);
        if (_held.Remove(older))
            _held.Add(latest);
    }

    /// <summary>Nothing is held back any more of what was written to these handles before a moment.</summary>
    public void Queue(Func<int, bool> handles, long before = long.MaxValue)
    {
        var now = Now;
        _held.RemoveAll(message =>
        {
            if (!handles(message.Handle) || message.DecidedAt >= before)
                return false;
            message.QueuedAt = Math.Min(message.QueuedAt, now);
            return true;
        });
    }

    public void Acknowledge(LedgerMessage message, int route)
    {
        message.AcknowledgedRoutes |= 1 << route;
        if (IsAcknowledged(message))
            Acknowledged++;
    }

    /// <summary>Whether it is lost, once it is settled: it was dropped, refused or given up, in whatever way.</summary>
    public bool IsLost(LedgerMessage message) => message.IsDroppedAtWrite || (message.IsAccepted != false && message.Newer is null && !IsAcknowledged(message));

    public bool IsAcknowledged(LedgerMessage message) => message.AcknowledgedRoutes == schedule.RoutesOf(message.Handle);

    /// <summary>Reads a sent message and checks that it is what was written, and goes where it should.</summary>
    public LedgerMessage Read(int route, OutputHandle handle, BatchMessage sent)
    {
        var payload = sent.Payload.Span;
        var message = _messages[BinaryPrimitives.ReadInt32LittleEndian(payload)];
        if (schedule.Handles[message.Handle] != handle)
            journal.Broken($"m{message.Id} was written to h{message.Handle} and sent to {handle}");
        if ((schedule.RoutesOf(message.Handle) & (1 << route)) == 0)
            journal.Broken($"m{message.Id} took route {route}, which is not one of its handle's");
        if (!payload.SequenceEqual(message.Payload()))
            journal.Broken($"m{message.Id} was sent with other bytes than were written");
        if (sent.Kind != message.Kind)
            journal.Broken($"m{message.Id} was sent with another header than it was written with");
        if (message.IsAccepted == false)
            journal.Broken($"m{message.Id} was turned away and sent all the same");
        if (message.Newer is not null)
            journal.Broken($"m{message.Id} was superseded and sent all the same");
        // Of several routes the first decides.
        if (!message.WasSent && message.ExpiresAt <= clock.GetTimestamp() && int.PopCount(schedule.RoutesOf(message.Handle)) == 1)
            journal.Broken($"m{message.Id} was sent for the first time after its time to live");
        message.WasSent = true;
        message.End = Math.Min(message.End, Now);
        message.QueuedAt = Math.Min(message.QueuedAt, Now);
        return message;
    }
}

/// <summary>A message as its writer knows it.</summary>
internal sealed class LedgerMessage(int id, int handle, int bytes, MessageKind kind, Gathering? gathering, long start)
{
    public int Id { get; } = id;

    public int Handle { get; } = handle;

    public int Bytes { get; } = bytes;

    public MessageKind Kind { get; } = kind;

    /// <summary>Its key, when it is a latest value.</summary>
    public long? Key { get; init; }

    /// <summary>How long it may wait to be sent.</summary>
    public TimeSpan? TimeToLive { get; set; }

    /// <summary>Until when that is; the largest number when it has no end, or a begin that is not known.</summary>
    public long ExpiresAt { get; set; } = long.MaxValue;

    /// <summary>The latest value that took its place.</summary>
    public LedgerMessage? Newer { get; set; }

    /// <summary>What is there in its place.</summary>
    public LedgerMessage Newest => Newer?.Newest ?? this;

    /// <summary>The ambient scope that it was written in.</summary>
    public Gathering? Gathering { get; private set; } = gathering;

    /// <summary>When its write was called.</summary>
    public long Start { get; private set; } = start;

    /// <summary>When its write had certainly happened: it returned, or the message was seen in a send.</summary>
    public long End { get; set; } = long.MaxValue;

    /// <summary>When its writer was told what became of the write.</summary>
    public long DecidedAt { get; set; } = long.MaxValue;

    /// <summary>When it had certainly been queued: no scope held it back any more.</summary>
    public long QueuedAt { get; set; } = long.MaxValue;

    /// <summary>The loop that it was written in: it takes its place when that ends, or before.</summary>
    public LedgerLoop? Loop { get; set; }

    /// <summary>Null while its write has not ended.</summary>
    public bool? IsAccepted { get; set; }

    /// <summary>True when the overflow policy dropped it and its writer was not told.</summary>
    public bool IsDroppedAtWrite { get; set; }

    /// <summary>One bit for each route that the transport acknowledged it on.</summary>
    public int AcknowledgedRoutes { get; set; }

    /// <summary>One bit for each route that it was delivered on.</summary>
    public int DeliveredRoutes { get; set; }

    public bool WasSent { get; set; }

    /// <summary>True when the buffer had capacity for it at its write that others could not have taken.</summary>
    public bool MustFit { get; set; }

    /// <summary>Whether its loss was reported by a flush or the end of a scope; null when it may have been.</summary>
    public bool? IsReported { get; set; } = false;

    public void TakePlaceOf(LedgerMessage older)
    {
        (Gathering, Start, QueuedAt, IsReported) = (older.Gathering, older.Start, older.QueuedAt, older.IsReported);
        (End, DecidedAt) = (Math.Min(End, older.End), Math.Min(DecidedAt, older.DecidedAt));
    }

    public byte[] Payload()
    {
        var payload = new byte[Bytes];
        WriteTo(payload);
        return payload;
    }

    public void WriteTo(Span<byte> payload)
    {
        BinaryPrimitives.WriteInt32LittleEndian(payload, Id);
        payload[sizeof(int)..Bytes].Fill((byte)Id);
    }
}

/// <summary>The messages of one writer.</summary>
internal sealed class LedgerLoop
{
    private readonly int[] _delivered = [-1, -1];

    public List<LedgerMessage> Messages { get; } = [];

    public bool IsOpen { get; set; } = true;

    /// <returns>False when a later one was delivered before.</returns>
    public bool Deliver(int route, LedgerMessage message)
    {
        var last = _delivered[route];
        _delivered[route] = message.Id;
        return last < message.Id;
    }
}
