using System.Buffers.Binary;
using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>What was written, and what became of it, as seen from outside the buffer.</summary>
internal sealed class Ledger(OutputHandle[] handles, int[] routesOfHandles, Journal journal)
{
    private readonly List<LedgerMessage> _messages = [];
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

    public LedgerMessage Begin(int handle, int bytes, bool isPrompt)
    {
        var message = new LedgerMessage(_messages.Count, handle, bytes, isPrompt, Now);
        _messages.Add(message);
        Undecided++;
        return message;
    }

    public void Decide(LedgerMessage message, bool isAccepted)
    {
        message.IsAccepted = isAccepted;
        Undecided--;
        if (isAccepted)
        {
            message.End = Math.Min(message.End, Now);
            Accepted++;
            AcceptedBytes += message.Bytes;
        }
        else if (message.WasSent)
        {
            journal.Broken($"m{message.Id} was turned away and sent all the same");
        }
    }

    public void Acknowledge(LedgerMessage message, int route)
    {
        message.AcknowledgedRoutes |= 1 << route;
        if (IsAcknowledged(message))
            Acknowledged++;
    }

    public bool IsAcknowledged(LedgerMessage message) => message.AcknowledgedRoutes == routesOfHandles[message.Handle];

    /// <summary>Reads a sent message and checks that it is what was written, and goes where it should.</summary>
    public LedgerMessage Read(int route, OutputHandle handle, BatchMessage sent)
    {
        var payload = sent.Payload.Span;
        var message = _messages[BinaryPrimitives.ReadInt32LittleEndian(payload)];
        if (handles[message.Handle] != handle)
            journal.Broken($"m{message.Id} was written to h{message.Handle} and sent to {handle}");
        if ((routesOfHandles[message.Handle] & (1 << route)) == 0)
            journal.Broken($"m{message.Id} took route {route}, which is not one of its handle's");
        if (!payload.SequenceEqual(message.Payload()))
            journal.Broken($"m{message.Id} was sent with other bytes than were written");
        if ((sent.Kind == MessageKind.Prompt) != message.IsPrompt)
            journal.Broken($"m{message.Id} was sent with another header than it was written with");
        if (message.IsAccepted == false)
            journal.Broken($"m{message.Id} was turned away and sent all the same");
        message.WasSent = true;
        message.End = Math.Min(message.End, Now);
        return message;
    }
}
