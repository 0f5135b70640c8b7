using System.Globalization;
using System.Text;
using BatchKit.Testing;

namespace BatchKit.Tests.Sequences;

/// <summary>Takes the steps of one sequence on a real buffer and on the model, and compares them after each.</summary>
internal sealed class SequenceRun
{
    /// <summary>The shortest message: its number and a full stop, in as many digits as the longest sequence needs.</summary>
    public const int MinMessageBytes = 6;

    private const int MaxBatchBytes = 256;
    private const int MaxBatchMessages = 7;

    // An unscoped write that comes sooner after the one before belongs to a loop, and is sent on the pool.
    private static readonly TimeSpan Pause = TimeSpan.FromMicroseconds(20);

    private readonly CollectingTransport _transport = new();
    private readonly OutputHandle[] _handles = [.. Enumerable.Range(0, Steps.Handles).Select(HandleAt)];
    private readonly BufferModel _model = new(Steps.Handles, MaxBatchBytes, MaxBatchMessages);
    private readonly List<BufferingScope> _scopes = [];
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputBuffer _buffer;
    private int _compared;
    private int _lastMessage;

    private SequenceRun() => _buffer = new OutputBuffer(
        _transport,
        new OutputBufferOptions { MaxBatchBytes = MaxBatchBytes, MaxBatchMessages = MaxBatchMessages, MaxScopeAge = TimeSpan.FromHours(1) },
        timeProvider: _clock);

    /// <summary>Runs a sequence; throws at the first difference.</summary>
    public static void Check(Step[] steps)
    {
        // In a context of its own, so that an ambient scope that a sequence leaves open is not seen by the next.
        ExecutionContext.Run(ExecutionContext.Capture()!, _ => new SequenceRun().Run(steps), state: null);
    }

    // Numbers and names, so that both kinds of handle share every path.
    private static OutputHandle HandleAt(int index) =>
        IsConnection(index) ? OutputHandle.Connection(node: index, sequence: 1) : OutputHandle.Named($"group {index}");

    public static bool IsConnection(int index) => index % 2 == 0;

    private void Run(Step[] steps)
    {
        for (var index = 0; index < steps.Length; index++)
        {
            var step = steps[index];
            Advance(Pause);
            Compare($"the pause before step {index}", isOrdered: false);
            if (step.Elsewhere)
                Task.Run(() => Take(step)).WithinDeadline().GetAwaiter().GetResult();
            else
                Take(step);
            Compare($"step {index}, {step}", isOrdered: step.Kind is not (StepKind.FlushAll or StepKind.Advance));
        }

        for (var scope = 0; scope < _scopes.Count; scope++)
        {
            _scopes[scope].Dispose();
            _model.Close(scope);
        }

        Compare("closing all", isOrdered: true);
        Assert.Equal(0, _buffer.GetStatistics().PendingMessages);
        _buffer.DisposeAsync().AsTask().WithinDeadline().GetAwaiter().GetResult();
    }

    private void Take(Step step)
    {
        switch (step.Kind)
        {
            case StepKind.Write or StepKind.TryWrite or StepKind.WriteAsync or StepKind.WriteText or StepKind.WriteLatest or StepKind.WriteLatestText or StepKind.WriteExpiring:
                Write(step);
                break;
            case StepKind.WriteLoop:
                WriteLoop(step);
                break;
            case StepKind.OpenScope:
                _scopes.Add(_buffer.BeginBufferingScope(_handles[step.Handle]));
                _model.Open(step.Handle);
                break;
            case StepKind.OpenLimited:
                _scopes.Add(_buffer.BeginBufferingScope(_handles[step.Handle], step.Limit));
                _model.Open(step.Handle, step.Limit);
                break;
            case StepKind.OpenAmbient:
                _scopes.Add(_buffer.BeginBufferingScope());
                _model.OpenAmbient(step.Elsewhere);
                break;
            case StepKind.Close or StepKind.CloseTwice or StepKind.CloseAsync:
                Close(step);
                break;
            case StepKind.EndScope:
                Assert.Equal(_model.End(step.Handle), _buffer.EndBufferingScope(_handles[step.Handle]));
                break;
            case StepKind.FlushHandle:
                _model.Flush(step.Handle);
                EndNow(_buffer.FlushAsync(_handles[step.Handle]));
                break;
            case StepKind.FlushAll:
                _model.FlushAll();
                EndNow(_buffer.FlushAsync());
                break;
            case StepKind.Advance:
                Advance(TimeSpan.FromMilliseconds(step.Size));
                break;
            default:
                throw new ArgumentOutOfRangeException(nameof(step));
        }
    }

    private void Advance(TimeSpan time)
    {
        _model.Advance(time);
        _clock.Advance(time);
    }

    private void Write(Step step)
    {
        var message = ++_lastMessage;
        var text = $"{message}.".PadRight(step.Size, '.');
        var handle = _handles[step.Handle];
        _model.Write(step.Handle, new ModelMessage(message, text.Length, step.Key, step.TimeToLive));
        switch (step.Kind)
        {
            case StepKind.Write:
                _buffer.Write(handle, Encoding.UTF8.GetBytes(text));
                break;
            case StepKind.TryWrite:
                Assert.True(_buffer.TryWrite(handle, Encoding.UTF8.GetBytes(text)));
                break;
            case StepKind.WriteAsync:
                EndNow(_buffer.WriteAsync(handle, Encoding.UTF8.GetBytes(text)));
                break;
            case StepKind.WriteLatest:
                _buffer.WriteLatest(handle, step.Key!.Value, Encoding.UTF8.GetBytes(text));
                break;
            case StepKind.WriteLatestText:
                _buffer.WriteLatest(handle, step.Key!.Value, text);
                break;
            case StepKind.WriteExpiring:
                // A header of its own, so that none is repeated.
                _buffer.Write(handle, Encoding.UTF8.GetBytes(text), new MessageHeader { TimeToLive = step.TimeToLive });
                break;
            default:
                _buffer.Write(handle, text);
                break;
        }
    }

    private void WriteLoop(Step step)
    {
        using var lines = _buffer.BeginWriting(_handles[step.Handle]);
        var messages = new List<ModelMessage>();
        for (var count = 0; count < step.Count; count++)
        {
            var text = $"{++_lastMessage}.".PadRight(step.Size, '.');
            messages.Add(new ModelMessage(_lastMessage, text.Length, Key: null));
            lines.Write(text);
        }

        _model.WriteLoop(step.Handle, messages);
    }

    private void Close(Step step)
    {
        if (_scopes.Count == 0)
            return;
        var index = step.Scope % _scopes.Count;
        var copy = _scopes[index];
        _model.Close(index);
        if (step.Kind == StepKind.CloseAsync)
            EndNow(copy.DisposeAsync());
        else
            copy.Dispose();
        if (step.Kind == StepKind.CloseTwice)
            copy.Dispose();
    }

    // The transport completes at once, on the caller's thread, so that whatever waits for it has ended when the call returns.
    private void EndNow(ValueTask task)
    {
        Assert.True(task.IsCompleted);
        try
        {
            task.GetAwaiter().GetResult();
        }
        catch (OutputDeliveryException loss)
        {
            Assert.InRange(loss.LostMessages, 1, _model.Expired);
        }
    }

    // One partition: the order holds across handles too. Only a flush of all handles, and limits that pass at one time, go through them in no particular order.
    private void Compare(string where, bool isOrdered)
    {
        var sent = _transport.Batches.Skip(_compared).Select(ToSent).ToList();
        var expected = _model.Sent.Skip(_compared).ToList();
        if (!isOrdered)
            (sent, expected) = ([.. sent.OrderBy(batch => batch.Handle)], [.. expected.OrderBy(batch => batch.Handle)]);
        if (!sent.Select(Text).SequenceEqual(expected.Select(Text)))
            Assert.Fail($"After {where}: sent {string.Join(", ", sent)} where the model sent {string.Join(", ", expected)}.");
        _compared += sent.Count;

        var statistics = _buffer.GetStatistics();
        var truth = (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.SupersededMessages, statistics.ExpiredMessages, statistics.PendingMessages, statistics.Batches);
        var model = (
            (long)_model.Accepted, (long)_model.Accepted - _model.Superseded - _model.Expired - _model.Held, (long)_model.Superseded, (long)_model.Expired, (long)_model.Held,
            (long)_model.Sent.Count + _model.ExpiredBatches + _model.HeldBatches);
        if (truth != model)
            Assert.Fail($"After {where}: (accepted, acknowledged, superseded, expired, pending, batches) are {truth} where the model has {model}.");
    }

    private SentBatch ToSent(CollectedBatch batch) => new(
        Array.IndexOf(_handles, batch.Handle),
        [.. batch.Messages.Select(message => int.Parse(message.Text.AsSpan(0, message.Text.IndexOf('.', StringComparison.Ordinal)), CultureInfo.InvariantCulture))]);

    private static string Text(SentBatch batch) => batch.ToString();
}
