using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>A hop that stalls, fails, answers in part and completes in any order, as the schedule's seed says, and checks every rule of a send.</summary>
internal sealed class ScheduledTransport(int route, Schedule schedule, Ledger ledger, Journal journal, TimeProvider clock, Action<ScheduledSend> reenter)
    : IBatchTransport
{
    private readonly Dictionary<ProducerId, LaneHistory> _lanes = [];
    private readonly ReceivingEnd _end = new(route, journal);
    private readonly List<ScheduledSend> _stalled = [];

    public bool SendsWithoutBlocking { get; } = schedule.SendsInline[route];

    public IReadOnlyList<ScheduledSend> Stalled => _stalled;

    /// <summary>True to complete every send at once from now on.</summary>
    public bool IsWell { get; set; }

    /// <summary>True to complete none.</summary>
    public bool IsDead { get; set; }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var send = Begin(batches);
        journal.Add($"route {route} sends {send}");
        if (!IsWell && !IsDead && schedule.Chance(schedule.ReentersPercent))
            reenter(send);
        if (IsDead || (!IsWell && schedule.Chance(schedule.StallsPercent)))
            return Stall(send, cancellationToken);
        var failure = Conclude(send, IsWell ? SendEnding.Succeeds : schedule.NextEnding());
        if (failure is null)
            return ValueTask.CompletedTask;
        return schedule.Chance(50) ? ValueTask.FromException(failure) : throw failure;
    }

    /// <summary>Ends a stalled send.</summary>
    public void End(ScheduledSend send, SendEnding ending)
    {
        if (!_stalled.Remove(send))
            return;
        journal.Add($"route {route} {(send.IsAbandoned ? "ends (abandoned)" : "ends")} {send}: {ending}");
        send.End(Conclude(send, ending));
    }

    private ScheduledSend Begin(ReadOnlyMemory<MessageBatch> memory)
    {
        var batches = memory.ToArray().Select(ReadBatch).ToArray();
        CheckLimits(batches);
        var producer = batches[0].Producer;
        if (batches.Any(batch => batch.Producer != producer))
            journal.Broken("a send has batches of two producers");
        if (!_lanes.TryGetValue(producer, out var lane))
            _lanes.Add(producer, lane = new LaneHistory(journal));
        if (lane.UnderWay is { IsAbandoned: false } other)
            journal.Broken($"{string.Join(' ', batches.AsEnumerable())} is sent while {other} is under way");
        var send = new ScheduledSend(lane.Take(batches), memory, lane, clock);
        lane.UnderWay = send;
        return send;
    }

    private SentBatch ReadBatch(MessageBatch batch)
    {
        var messages = new LedgerMessage[batch.Count];
        for (var index = 0; index < messages.Length; index++)
            messages[index] = ledger.Read(route, batch.Handle, batch[index]);
        return new SentBatch(batch, messages);
    }

    private void CheckLimits(SentBatch[] batches)
    {
        var options = schedule.Options;
        foreach (var batch in batches)
        {
            if (batch.Messages.Length > options.MaxBatchMessages || (batch.Bytes > options.MaxBatchBytes && batch.Messages.Length > 1))
                journal.Broken($"{batch} is larger than a batch may be");
        }

        if (batches.Length > options.MaxSendBatches || (batches.Sum(batch => batch.Bytes) > options.MaxSendBytes && batches.Length > 1))
            journal.Broken("a send is larger than a send may be");
    }

    private ValueTask Stall(ScheduledSend send, CancellationToken cancellationToken)
    {
        _stalled.Add(send);
        var heeds = schedule.Chance(schedule.HeedsTokenPercent);
        cancellationToken.Register(() =>
        {
            send.OnCancelled();
            if (heeds)
                End(send, SendEnding.IsCancelled);
        });
        return new ValueTask(send.Task);
    }

    private Exception? Conclude(ScheduledSend send, SendEnding ending)
    {
        if (!send.IsMemoryIntact)
            journal.Broken($"the memory of {send} changed while it was under way");
        if (ReferenceEquals(send.Lane.UnderWay, send))
            send.Lane.UnderWay = null;
        switch (ending)
        {
            case SendEnding.Succeeds:
                Array.ForEach(send.Batches, batch => Acknowledge(send, batch));
                return null;
            case SendEnding.Fails:
                return new IOException("The schedule says that this send fails.");
            case SendEnding.LosesAcknowledgement:
                Array.ForEach(send.Batches, _end.Deliver);
                return new IOException("The schedule says that this send's acknowledgement is lost.");
            case SendEnding.BreaksOff:
                Array.ForEach(send.Batches[..schedule.Pick(send.Batches.Length + 1)], _end.Deliver);
                return new IOException("The schedule says that this send breaks off.");
            case SendEnding.Answers:
                return Answer(send);
            default:
                return new OperationCanceledException();
        }
    }

    // A hop keeps each destination's order: behind one that is to be sent again, nothing for the same handle is taken.
    private BatchSendException Answer(ScheduledSend send)
    {
        var outcomes = new BatchOutcome[send.Batches.Length];
        var heldUp = new HashSet<OutputHandle>();
        for (var index = 0; index < outcomes.Length; index++)
        {
            var batch = send.Batches[index];
            var isHeldUp = heldUp.Contains(batch.Handle);
            outcomes[index] = schedule.MayRefuse && schedule.Chance(20) ? BatchOutcome.Refused
                : isHeldUp || schedule.Chance(40) ? BatchOutcome.Unacknowledged
                : BatchOutcome.Acknowledged;
            if (outcomes[index] == BatchOutcome.Acknowledged)
                Acknowledge(send, batch);
            else if (outcomes[index] == BatchOutcome.Refused)
                batch.IsSettled |= !send.IsAbandoned;
            else if (!isHeldUp && schedule.Chance(50))
                _end.Deliver(batch);
            if (outcomes[index] == BatchOutcome.Unacknowledged)
                heldUp.Add(batch.Handle);
        }

        journal.Add($"route {route} answers {string.Join(' ', outcomes)}");
        return new BatchSendException([.. outcomes], "The schedule says what became of each batch.");
    }

    private void Acknowledge(ScheduledSend send, SentBatch batch)
    {
        _end.Deliver(batch);
        if (send.IsAbandoned)
            return;
        batch.IsSettled = true;
        foreach (var message in batch.Messages)
            ledger.Acknowledge(message, route);
    }
}
