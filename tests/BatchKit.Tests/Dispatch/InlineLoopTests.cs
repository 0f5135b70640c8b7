using BatchKit.Batches;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>Unscoped writes over a hop that sends inline: a lone one goes out at once, those of a loop gather.</summary>
public sealed class InlineLoopTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly WaitingSenders _scheduler = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public InlineLoopTests()
    {
        _clock.Advance(TimeSpan.FromSeconds(1));
        _buffer = new OutputBuffer([new OutputRoute("only", _arrived)], router: null, new OutputBufferOptions(), "", _clock, logger: null, meterFactory: null, _scheduler);
    }

    [Fact]
    public void A_lone_write_goes_out_at_once()
    {
        for (var line = 1; line <= 3; line++)
        {
            _buffer.Write(_handle, "line");

            Assert.Equal(line, _arrived.MessageCount);
            _clock.Advance(TimeSpan.FromMilliseconds(1));
        }

        Assert.Equal(0, _scheduler.Count);
    }

    [Fact]
    public void The_writes_of_a_loop_gather_behind_its_first_for_one_sender()
    {
        foreach (var line in Some.Lines(1000))
            _buffer.Write(_handle, line);
        var inline = _arrived.Texts;
        _scheduler.RunAll();

        Assert.Equal(Some.Lines(1), inline);
        Assert.Equal(Some.Lines(1000), _arrived.Texts);
        Assert.Equal([1, 1], _arrived.BatchesOfSends);
    }

    [Fact]
    public void The_writes_of_a_loop_over_many_handles_gather_too()
    {
        for (var number = 1; number <= 100; number++)
            _buffer.Write(OutputHandle.Connection(node: 1, number), "line");
        _scheduler.RunAll();

        Assert.Equal([1, 99], _arrived.BatchesOfSends);
    }

    [Fact]
    public void After_a_pause_a_write_goes_out_at_once_again()
    {
        foreach (var line in Some.Lines(10))
            _buffer.Write(_handle, line);
        _scheduler.RunAll();
        _clock.Advance(TimeSpan.FromMilliseconds(1));

        _buffer.Write(_handle, "after the pause");

        Assert.Equal(11, _arrived.MessageCount);
        Assert.Equal(0, _scheduler.Count);
    }

    [Fact]
    public void A_write_soon_after_a_loops_send_still_belongs_to_the_loop()
    {
        foreach (var line in Some.Lines(10))
            _buffer.Write(_handle, line);
        _scheduler.RunAll();

        _buffer.Write(_handle, "soon after");

        Assert.Equal((10, 1), (_arrived.MessageCount, _scheduler.Count));
        _scheduler.RunAll();
        Assert.Equal(11, _arrived.MessageCount);
    }

    [Fact]
    public void A_scope_that_closes_right_after_a_write_goes_out_at_once()
    {
        _buffer.Write(_handle, "line 0");

        using (_buffer.BeginBufferingScope(_handle))
            _buffer.Write(_handle, "line 1");

        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public async Task A_lone_write_goes_out_on_its_writers_thread_and_those_of_a_loop_do_not()
    {
        var transport = new ThreadCollectingTransport();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        var writer = 0;

        await Task.Factory.StartNew(
            () =>
            {
                writer = Environment.CurrentManagedThreadId;
                for (var line = 0; line < 100; line++)
                    buffer.Write(_handle, "line");
                buffer.FlushAsync().AsTask().Wait(Deadline.Time);
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).WithinDeadline();

        Assert.Equal(writer, transport.Threads[0]);
        Assert.DoesNotContain(writer, transport.Threads.Skip(1));
        Assert.Equal(100, buffer.GetStatistics().AcknowledgedMessages);
    }

    private sealed class WaitingSenders : IDispatchScheduler
    {
        private readonly Queue<IThreadPoolWorkItem> _senders = [];

        public int Count => _senders.Count;

        public void Schedule(IThreadPoolWorkItem sender) => _senders.Enqueue(sender);

        public void RunAll()
        {
            while (_senders.TryDequeue(out var sender))
                sender.Execute();
        }
    }

    private sealed class ThreadCollectingTransport : IBatchTransport
    {
        public List<int> Threads { get; } = [];

        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            Threads.Add(Environment.CurrentManagedThreadId);
            return ValueTask.CompletedTask;
        }
    }
}
