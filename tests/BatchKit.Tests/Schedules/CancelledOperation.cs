using System.Globalization;
using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Schedules;

/// <summary>One operation of a buffer that is nearly full and has a send under way, cancelled at one of its steps. A step is whatever lets an await go on: a sender that runs, a send that begins or ends, a pause that is over.</summary>
internal sealed class CancelledOperation
{
    public const string Write = "a write that waits for capacity";
    public const string FlushHandle = "a flush of a handle";
    public const string FlushAll = "a flush of all handles";
    public const string Stop = "a stop";

    private const int Capacity = 4096;
    private const int MaxSteps = 10_000;

    private readonly string _operation;
    private readonly int _cancelAt;
    private readonly Random _random;
    private readonly ManualTimeProvider _clock = new();
    private readonly QueuedScheduler _scheduler = new();
    private readonly SteppedTransport _transport;
    private readonly OutputBuffer _buffer;
    private readonly OutputHandle[] _handles = [OutputHandle.Connection(1, 1), OutputHandle.Connection(1, 2)];
    private readonly List<string>[] _accepted = [[], []];
    private readonly CancellationTokenSource _cancellation = new();
    private int _steps;
    private int _written;

    private CancelledOperation(string operation, int seed, int cancelAt)
    {
        (_operation, _cancelAt, _random) = (operation, cancelAt, new Random(seed));
        _transport = new SteppedTransport(CountStep, sendsWithoutBlocking: seed % 2 == 0);
        var options = new OutputBufferOptions { MaxBufferedBytes = Capacity, MaxMessageBytes = Capacity - 4, MaxBatchBytes = 256 + (256 * (seed % 4)), MaxSendBatches = 1 + (seed % 5), RetryDelay = Schedule.Tick, MaxRetryDelay = Schedule.Tick };
        _buffer = new OutputBuffer([new OutputRoute("only", _transport, partitions: 1 + (seed % 2))], router: null, options, name: "cancelled", _clock, logger: null, meterFactory: null, _scheduler);
    }

    /// <summary>Runs it on a thread that has no synchronization context, where continuations run inline.</summary>
    /// <returns>False when the operation ended before that step.</returns>
    public static bool Run(string operation, int seed, int cancelAt)
    {
        var (wasCancelled, failure) = (false, default(Exception));
        var thread = new Thread(() => failure = Record.Exception(() => wasCancelled = new CancelledOperation(operation, seed, cancelAt).Run()));
        thread.UnsafeStart();
        thread.Join();
        return failure is null ? wasCancelled : throw new InvalidOperationException($"Seed {seed}, cancelled at step {cancelAt}: {failure.Message}", failure);
    }

    private bool Run()
    {
        Fill();
        var task = Begin();
        CountStep();
        for (; !task.IsCompleted && _steps < MaxSteps && TryMove(); CountStep())
        {
        }

        // Only a continuation on the pool can be missing now.
        var failure = Record.Exception(() => task.WithinDeadline().GetAwaiter().GetResult());
        var wasCancelled = _cancellation.IsCancellationRequested;
        Assert.True(failure is null || (wasCancelled && failure is OperationCanceledException canceled && canceled.CancellationToken == _cancellation.Token), $"It ended with {failure}");
        if (_operation == Write && failure is null)
            _accepted[0].Add(TextOf(_written));
        _transport.IsWell = true;
        if (_operation == Stop)
            AssertStopped();
        else
            AssertGoesOn();
        return wasCancelled;
    }

    // Until a write would have to wait. An open scope holds back what the last ones wrote.
    private void Fill()
    {
        var scope = default(BufferingScope);
        for (var handle = 0; Capacity - _buffer.GetStatistics().BufferedBytes > 1024; handle = _random.Next(2))
        {
            if (_written == 3)
                scope = _buffer.BeginBufferingScope(_handles[0]);
            var text = TextOf(++_written);
            _buffer.Write(_handles[handle], Encoding.ASCII.GetBytes(text));
            _accepted[handle].Add(text);
            if (_random.Next(3) == 0)
                TryMove();
        }

        scope.Dispose();
    }

    private Task Begin()
    {
        switch (_operation)
        {
            case Write:
                return _buffer.WriteAsync(_handles[0], Encoding.ASCII.GetBytes(TextOf(++_written).PadRight(3000)), cancellationToken: _cancellation.Token).AsTask();
            case FlushHandle:
                return _buffer.FlushAsync(_handles[0], _cancellation.Token).AsTask();
            case FlushAll:
                return _buffer.FlushAsync(_cancellation.Token).AsTask();
            default:
                return _buffer.StopAsync(_cancellation.Token);
        }
    }

    private void CountStep()
    {
        if (_steps++ == _cancelAt)
            _cancellation.Cancel();
    }

    /// <returns>False when nothing is left that could happen.</returns>
    private bool TryMove()
    {
        var (senders, sends) = (_scheduler.Waiting, _transport.Pending);
        if (senders + sends > 0)
        {
            var choice = _random.Next(senders + sends);
            if (choice < senders)
                _scheduler.Run(choice);
            else
                _transport.End(choice - senders, fails: !_transport.IsWell && _random.Next(4) == 0);
            return true;
        }

        // The limits of a stop that ends on the pool are in this time too, which must not run ahead of it.
        var endsOnPool = _operation == Stop && _cancellation.IsCancellationRequested;
        if (endsOnPool || _buffer.GetStatistics().PendingMessages == 0)
            return false;
        QueuedScheduler.RunInNoContext(() => _clock.Advance(Schedule.Tick));
        return true;
    }

    private void AssertGoesOn()
    {
        Settle();
        var last = new string('z', Capacity - 4);
        Assert.True(_buffer.TryWrite(_handles[1], Encoding.ASCII.GetBytes(last)), "Capacity is missing.");
        _accepted[1].Add(last);
        Settle();
        for (var handle = 0; handle < 2; handle++)
            Assert.Equal(_accepted[handle], _transport.TextsFor(_handles[handle]).Select(text => text == last ? text : text.TrimEnd()));
        var statistics = _buffer.GetStatistics();
        Assert.Equal((_accepted.Sum(texts => texts.Count), 0, 0L), (statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages);
        var stopping = _buffer.StopAsync(CancellationToken.None);
        Settle();
        stopping.WithinDeadline().GetAwaiter().GetResult();
    }

    private void AssertStopped()
    {
        Settle();
        var statistics = _buffer.GetStatistics();
        Assert.Equal((0, 0L), (statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages);
        Assert.Equal(_accepted.Sum(texts => texts.Count), statistics.AcceptedMessages);
        var arrived = _handles.Select(_transport.TextsFor).ToArray();
        Assert.Equal(statistics.AcknowledgedMessages, arrived.Sum(texts => texts.Count));
        for (var handle = 0; handle < 2; handle++)
            Assert.Equal(_accepted[handle].Take(arrived[handle].Count), arrived[handle]);
        Assert.Throws<ObjectDisposedException>(() => _buffer.Write(_handles[0], "late"u8));
    }

    private void Settle()
    {
        for (var moves = 0; moves < MaxSteps && TryMove(); moves++)
        {
        }

        Assert.Equal((0, 0), (_scheduler.Waiting, _transport.Pending));
    }

    private static string TextOf(int number) => number.ToString("D200", CultureInfo.InvariantCulture);

    /// <summary>A hop whose sends the test ends one by one. A failed or cancelled one took nothing.</summary>
    private sealed class SteppedTransport(Action onSend, bool sendsWithoutBlocking) : IBatchTransport
    {
        // Guards the sends: those that a stop cancels end on the pool.
        private readonly Lock _lock = new();
        private readonly List<(TaskCompletionSource End, MessageBatch[] Batches)> _pending = [];
        private readonly List<(OutputHandle Handle, string Text)> _arrived = [];

        public bool SendsWithoutBlocking => sendsWithoutBlocking;

        public bool IsWell { get; set; }

        public int Pending
        {
            get
            {
                lock (_lock)
                    return _pending.Count;
            }
        }

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            onSend();
            cancellationToken.ThrowIfCancellationRequested();

            // Continues on the thread that ends it.
            var end = new TaskCompletionSource();
            lock (_lock)
                _pending.Add((end, batches.ToArray()));
            cancellationToken.UnsafeRegister((_, token) => Cancel(end, token), state: null);
            return new ValueTask(end.Task);
        }

        public void End(int index, bool fails)
        {
            TaskCompletionSource end;
            MessageBatch[] batches;
            lock (_lock)
            {
                // It was cancelled meanwhile.
                if (index >= _pending.Count)
                    return;
                (end, batches) = _pending[index];
                _pending.RemoveAt(index);
            }

            if (fails)
            {
                end.SetException(new IOException("The hop failed, as the test wants."));
                return;
            }

            foreach (var batch in batches)
            {
                foreach (var message in batch)
                    _arrived.Add((batch.Handle, Encoding.ASCII.GetString(message.Payload.Span)));
            }

            end.SetResult();
        }

        public IReadOnlyList<string> TextsFor(OutputHandle handle) => [.. _arrived.Where(message => message.Handle == handle).Select(static message => message.Text)];

        private void Cancel(TaskCompletionSource end, CancellationToken token)
        {
            int removed;
            lock (_lock)
                removed = _pending.RemoveAll(send => send.End == end);
            if (removed > 0)
                end.SetCanceled(token);
        }
    }
}
