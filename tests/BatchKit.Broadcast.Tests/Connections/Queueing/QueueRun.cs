using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>One random sequence against a send queue and its model, compared after every step.</summary>
internal sealed class QueueRun
{
    public const int MaxMessageBytes = 40;

    private static readonly TimeSpan StallLimit = TimeSpan.FromMilliseconds(50);
    private static readonly byte[] LastBytes = Encoding.ASCII.GetBytes("bye");

    private readonly ManualTimeProvider _clock = new();
    private readonly SteppedWire _wire = new();
    private readonly DeliveryCounters _counters = new();
    private readonly SendQueueLimits _limits;
    private readonly SendQueue _queue;
    private readonly QueueModel _model;
    private int _lastMessage;

    private QueueRun(SlowConsumerPolicy policy)
    {
        _limits = new SendQueueLimits(MaxBytes: 4 * QueueModel.HeldBytesFor(MaxMessageBytes), MaxMessages: 9, policy);
        _queue = new SendQueue(_wire, _limits, _counters, _clock);
        _model = new QueueModel(_limits);
    }

    public static void Check(QueueStep[] steps, SlowConsumerPolicy policy)
    {
        var run = new QueueRun(policy);
        foreach (var step in steps)
        {
            run.Do(step);
            run.Compare();
        }
    }

    private void Do(QueueStep step)
    {
        switch (step.Kind)
        {
            case QueueStepKind.Send or QueueStepKind.SendOwned:
                Send(step);
                break;
            case QueueStepKind.SendControl or QueueStepKind.SwitchWire:
                SendControl(isSwitch: step.Kind == QueueStepKind.SwitchWire);
                break;
            case QueueStepKind.Grant:
                _model.Grant(step.Size);
                _wire.Grant(step.Size);
                break;
            case QueueStepKind.OpenWire:
                _model.Grant(int.MaxValue);
                _wire.Grant(int.MaxValue);
                break;
            case QueueStepKind.CloseWire:
                _model.CloseWire();
                _wire.Close();
                break;
            case QueueStepKind.BreakWire:
                _model.BreakWire();
                _wire.Break();
                break;
            case QueueStepKind.Complete:
                _model.Complete(LastBytes);
                _queue.Complete(LastBytes);
                break;
            case QueueStepKind.Abort:
                Abort(DeliveryOutcome.DroppedClosed);
                break;
            default:
                _clock.Advance(TimeSpan.FromMilliseconds(step.Size));
                _model.Now += step.Size;
                break;
        }
    }

    private void Send(QueueStep step)
    {
        var text = string.Concat(Enumerable.Range(0, step.Messages).Select(_ => $"<{++_lastMessage}{new string('m', step.Size)}>"[..Math.Min(step.Size, MaxMessageBytes)]));
        var bytes = Encoding.ASCII.GetBytes(text);
        var tally = default(DeliveryTally);
        DisconnectReason? expected;
        DisconnectReason? actual;
        if (step.Kind == QueueStepKind.Send)
        {
            expected = _model.Send(bytes, step.Messages, switches: false, QueueModel.HeldBytesFor(bytes.Length));
            var borrowed = (byte[])bytes.Clone();
            actual = _queue.Send(new OutputRun(borrowed, step.Messages), ref tally);
            Array.Fill(borrowed, (byte)'?');
        }
        else
        {
            // A buffer of more than twice the size is copied from.
            var owner = SharedBuffer.Copy([.. "owner's "u8, .. bytes]);
            var isShared = owner.Memory.Length <= 2 * SharedBuffer.CapacityFor(bytes.Length);
            expected = _model.Send(bytes, step.Messages, switches: false, isShared ? QueuedSegment.HeldBytesFor(owner.Memory.Length) : QueueModel.HeldBytesFor(bytes.Length));
            actual = _queue.Send(new OutputRun(owner.Memory.Span.Slice(8, bytes.Length), step.Messages, owner, 8), ref tally);
            owner.Release();
        }

        _counters.Add(tally);
        Follow(expected, actual);
    }

    private void SendControl(bool isSwitch)
    {
        byte[] bytes = [.. "nop"u8];
        var expected = _model.Send(bytes, messages: 0, isSwitch, QueueModel.HeldBytesFor(bytes.Length));
        Follow(expected, _queue.SendControl(bytes, isSwitch ? wire => new LoudWire(wire) : null));
    }

    /// <summary>Does what a connection does with the answer.</summary>
    private void Follow(DisconnectReason? expected, DisconnectReason? actual)
    {
        Assert.Equal(expected, actual);
        if (actual is { } reason)
            Abort(reason == DisconnectReason.SlowConsumer ? DeliveryOutcome.DroppedSlowConsumer : DeliveryOutcome.Failed);
    }

    private void Abort(DeliveryOutcome outcome)
    {
        _model.Abort(outcome);
        _queue.Abort(outcome);
    }

    private void Compare()
    {
        Assert.Equal(_model.Written, _wire.Written);
        Assert.Equal(_model.Waiting, _queue.Waiting);
        Assert.Equal(_model.HeldBytes, _queue.HeldBytes);
        Assert.InRange(_queue.HeldBytes, 0, _limits.MaxBytes);
        Assert.InRange(_queue.Waiting.Messages, 0, _limits.MaxMessages);
        Assert.Equal(_model.Attempted, _counters.Attempted);
        for (var outcome = DeliveryOutcome.Sent; outcome <= DeliveryOutcome.Failed; outcome++)
            Assert.Equal((outcome, _model[outcome]), (outcome, _counters[outcome]));
        Assert.Equal(_counters.Attempted, Settled() + _queue.Waiting);
        Assert.Equal(_model.IsOver, _queue.Ended.IsCompleted);
        Assert.Equal(_model.IsFinished, _wire.IsFinished);
        Assert.Equal(_model.ProgressAt is { } at && _model.Now - at >= StallLimit.TotalMilliseconds, _queue.StalledFor >= StallLimit);
    }

    private Amount Settled()
    {
        var sum = default(Amount);
        for (var outcome = 0; outcome < DeliveryTally.Outcomes; outcome++)
            sum += _counters[(DeliveryOutcome)outcome];
        return sum;
    }
}
