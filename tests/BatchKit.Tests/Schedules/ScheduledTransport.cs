using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>A hop that blocks, stalls, fails, answers in part and completes in any order, as the schedule's seed says, and checks every rule of a send.</summary>
internal sealed class ScheduledTransport(int route, World world) : IBatchTransport
{
    private static readonly HashSet<int> None = [];

    private readonly Schedule _schedule = world.Schedule;
    private readonly Journal _journal = world.Journal;
    private readonly Dictionary<ProducerId, PartitionHistory> _partitions = [];
    private readonly ReceivingEnd _end = new(route, world.Schedule, world.Journal);

    // Replaced, never changed: from the drain's limit on sends are cancelled on the pool, while the explorer's thread looks on.
    private ImmutableList<ScheduledSend> _stalled = [];

    public bool SendsWithoutBlocking { get; } = world.Schedule.SendsInline[route];

    public FrameDestination GetDestination(OutputHandle handle) => FrameDestination.Of(handle, destinationNode: null);

    public IReadOnlyList<ScheduledSend> Stalled => _stalled;

    /// <summary>True to complete every send at once from now on.</summary>
    public bool IsWell { get; set; }

    private bool IsAway => !IsWell && _schedule.AwayRoute == route;

    /// <summary>True to complete none.</summary>
    public bool IsDead { get; set; }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var send = Begin(batches);
        _journal.Add($"route {route} sends {send}");
        var heeds = Heed(send, cancellationToken);
        if (!IsWell && !IsDead && _schedule.Chance(_schedule.ReentersPercent))
            world.Reenter(send);
        if (!IsWell && !IsDead && _schedule.Chance(_schedule.BlocksPercent))
            world.Block(_schedule.PickOne([1, 12, 20]) * Schedule.Tick);
        if (heeds && send.IsCancelled)
            throw Conclude(send, SendEnding.IsCancelled)!;
        if (IsDead || (!IsWell && _schedule.Chance(_schedule.StallsPercent)))
        {
            ImmutableInterlocked.Update(ref _stalled, static (all, added) => all.Add(added), send);
            send.OnReturned();
            return new ValueTask(send.Task);
        }

        var failure = Conclude(send, IsWell ? SendEnding.Succeeds : IsAway ? SendEnding.Fails : _schedule.NextEnding());
        if (failure is null)
            return ValueTask.CompletedTask;
        return _schedule.Chance(50) ? ValueTask.FromException(failure) : throw failure;
    }

    /// <summary>Ends a stalled send, if it is known whether the buffer still waits for it.</summary>
    public bool End(ScheduledSend send, SendEnding ending)
    {
        if (send.MayBeAbandoned || !ImmutableInterlocked.Update(ref _stalled, static (all, ended) => all.Remove(ended), send))
            return false;
        if (IsAway && ending != SendEnding.IsCancelled)
            ending = SendEnding.Fails;
        _journal.Add($"route {route} {(send.IsAbandoned ? "ends (abandoned)" : "ends")} {send}: {ending}");
        send.End(Conclude(send, ending));
        return true;
    }

    /// <summary>Every send that has passed its limit is cancelled.</summary>
    public void CheckLimits()
    {
        if (_stalled.Find(send => !send.IsCancelled && send.TimeSinceReturn > _schedule.Options.SendTimeout + _schedule.TimerSlack) is { } late)
            _journal.Broken($"{late} was not cancelled, and was sent {late.Age} ago");
    }

    private ScheduledSend Begin(ReadOnlyMemory<MessageBatch> memory)
    {
        var batches = memory.ToArray().Select(ReadBatch).ToArray();
        CheckSizes(batches);
        var producer = batches[0].Producer;
        if (batches.Any(batch => batch.Producer != producer))
            _journal.Broken("a send has batches of two producers");
        if (!_partitions.TryGetValue(producer, out var partition))
            _partitions.Add(producer, partition = new PartitionHistory(_journal));
        if (partition.UnderWay is { IsAbandoned: false } other)
            _journal.Broken($"{string.Join(' ', batches.AsEnumerable())} is sent while {other} is under way");
        var send = new ScheduledSend(partition.Take(batches), memory, partition, world);
        partition.UnderWay = send;
        return send;
    }

    private SentBatch ReadBatch(MessageBatch batch)
    {
        var messages = new LedgerMessage[batch.Count];
        for (var index = 0; index < messages.Length; index++)
            messages[index] = world.Ledger.Read(route, batch.Handle, batch[index]);
        return new SentBatch(batch, messages);
    }

    private void CheckSizes(SentBatch[] batches)
    {
        var options = _schedule.Options;
        foreach (var batch in batches)
        {
            if (batch.Messages.Length > options.MaxBatchMessages || (batch.Bytes > options.MaxBatchBytes && batch.Messages.Length > 1))
                _journal.Broken($"{batch} is larger than a batch may be");
        }

        if (batches.Length > options.MaxSendBatches || (batches.Sum(batch => batch.Bytes) > options.MaxSendBytes && batches.Length > 1))
            _journal.Broken("a send is larger than a send may be");
    }

    // What the handlers of a cancellation throw stops nothing, not even the other handlers.
    private bool Heed(ScheduledSend send, CancellationToken cancellationToken)
    {
        var heeds = _schedule.Chance(_schedule.HeedsTokenPercent);
        if (cancellationToken.IsCancellationRequested)
        {
            send.OnCancelled();
            return heeds;
        }

        cancellationToken.Register(() =>
        {
            send.OnCancelled();
            if (_stalled.Contains(send) && !world.IsStopped && send.Age < _schedule.Options.SendTimeout)
                _journal.Broken($"{send} was cancelled after {send.Age}, before its limit");
            if (heeds)
                End(send, SendEnding.IsCancelled);
        });
        if (world.Observers is { } observers && _schedule.Chance(30))
            cancellationToken.Register(observers.OnCancelled);
        return heeds;
    }

    private Exception? Conclude(ScheduledSend send, SendEnding ending)
    {
        if (!send.IsMemoryIntact)
            _journal.Broken($"the memory of {send} changed while it was under way");
        if (ReferenceEquals(send.Partition.UnderWay, send))
            send.Partition.UnderWay = null;
        switch (ending)
        {
            case SendEnding.Succeeds:
                Array.ForEach(send.Batches, batch => Acknowledge(send, batch, None));
                return null;
            case SendEnding.Fails:
                return new IOException("The schedule says that this send fails.");
            case SendEnding.LosesAcknowledgement:
                Array.ForEach(send.Batches, batch => Deliver(send, batch));
                return new IOException("The schedule says that this send's acknowledgement is lost.");
            case SendEnding.BreaksOff:
                Array.ForEach(send.Batches[.._schedule.Pick(send.Batches.Length + 1)], batch => Deliver(send, batch));
                return new IOException("The schedule says that this send breaks off.");
            case SendEnding.Answers:
                return Answer(send);
            case SendEnding.FindsBusyReceivers:
                return AnswerBusy(send);
            default:
                return new OperationCanceledException();
        }
    }

    // A hop keeps each destination's order: behind a batch that is to be sent again, nothing for the same handle is taken, or nothing at all.
    private BatchSendException Answer(ScheduledSend send)
    {
        var outcomes = new BatchOutcome[send.Batches.Length];
        var refusals = new List<MessageRefusal>();
        var heldUp = new HashSet<OutputHandle>();
        for (var index = 0; index < outcomes.Length; index++)
        {
            var batch = send.Batches[index];
            var isHeldUp = _schedule.AnswersInOrder ? heldUp.Count > 0 : heldUp.Contains(batch.Handle);
            outcomes[index] = _schedule.MayRefuse && _schedule.Chance(20) ? BatchOutcome.Refused
                : isHeldUp || _schedule.Chance(40) ? BatchOutcome.Unacknowledged
                : BatchOutcome.Acknowledged;
            if (outcomes[index] == BatchOutcome.Acknowledged)
                Acknowledge(send, batch, RefuseMessages(index, batch, refusals));
            else if (outcomes[index] == BatchOutcome.Refused)
                batch.IsSettled |= !send.IsAbandoned;
            else if (!isHeldUp && _schedule.Chance(50))
                Deliver(send, batch);
            if (outcomes[index] == BatchOutcome.Unacknowledged)
                heldUp.Add(batch.Handle);
        }

        _journal.Add($"route {route} answers {string.Join(' ', outcomes)}, refuses {string.Join(' ', refusals)}");
        return new BatchSendException([.. outcomes], "The schedule says what became of each batch.", null, [.. refusals]);
    }

    // Whoever gets output of a batch that was not taken gets none of a later one.
    private BatchSendException AnswerBusy(ScheduledSend send)
    {
        var outcomes = new BatchOutcome[send.Batches.Length];
        var busy = new FrameReceivers();
        busy.Add(FrameDestination.Of(_schedule.PickOne(_schedule.Handles), destinationNode: null));
        for (var index = 0; index < outcomes.Length; index++)
        {
            var batch = send.Batches[index];
            if (busy.Overlap(GetDestination(batch.Handle)))
            {
                busy.Add(GetDestination(batch.Handle));
                outcomes[index] = BatchOutcome.Busy;
                continue;
            }

            outcomes[index] = BatchOutcome.Acknowledged;
            Acknowledge(send, batch, None);
        }

        _journal.Add($"route {route} answers {string.Join(' ', outcomes)}");
        return new BatchSendException([.. outcomes], "The schedule says that some receivers take nothing.");
    }

    // A hop may name a message twice, or one that is not there: the one counts once, the other is ignored.
    private HashSet<int> RefuseMessages(int index, SentBatch batch, List<MessageRefusal> refusals)
    {
        var refused = new HashSet<int>();
        while (_schedule.MayRefuse && _schedule.Chance(40))
        {
            var message = _schedule.Pick(batch.Messages.Length + 2) - 1;
            refusals.Add(new MessageRefusal(index, message));
            if (message >= 0 && message < batch.Messages.Length)
                refused.Add(message);
        }

        return refused;
    }

    private void Deliver(ScheduledSend send, SentBatch batch) => _end.Deliver(batch, None, send.IsAbandoned);

    private void Acknowledge(ScheduledSend send, SentBatch batch, HashSet<int> refused)
    {
        _end.Deliver(batch, refused, send.IsAbandoned);
        if (send.IsAbandoned)
            return;
        batch.IsSettled = true;
        for (var index = 0; index < batch.Messages.Length; index++)
        {
            if (!refused.Contains(index))
                world.Ledger.Acknowledge(batch.Messages[index], route);
        }
    }
}
