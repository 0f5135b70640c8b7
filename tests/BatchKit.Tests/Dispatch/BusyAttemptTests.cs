using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.TestSupport;

namespace BatchKit.Tests.Dispatch;

/// <summary>What is tried again for busy receivers leaves the others their turn.</summary>
public sealed class BusyAttemptTests : IAsyncDisposable
{
    private static readonly OutputBufferOptions Options = new() { RetryDelay = TimeSpan.FromMilliseconds(100), MaxRetryDelay = TimeSpan.FromSeconds(5) };
    private static readonly OutputHandle First = Some.Connection(node: 1);
    private static readonly OutputHandle Second = Some.Connection(node: 2);
    private static readonly OutputHandle Third = Some.Connection(node: 3);

    private readonly FullQueues _queues = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputBuffer _buffer;

    public BusyAttemptTests() => _buffer = new OutputBuffer(_queues.CreateTransport(), Options, timeProvider: _clock);

    public async ValueTask DisposeAsync()
    {
        _queues.Full.Clear();
        var stopping = _buffer.DisposeAsync().AsTask();
        while (!stopping.IsCompleted)
            _clock.Advance(TimeSpan.FromSeconds(1));
        await stopping;
    }

    [Fact]
    public void Attempts_come_less_and_less_often_and_cost_the_others_none()
    {
        _queues.Full.Add(1);
        Write(First, "a");
        for (var line = 0; line < 1000; line++)
        {
            Write(Second, "b");
            _clock.Advance(TimeSpan.FromMilliseconds(60));
        }

        Assert.Equal(1000, _queues.Texts(2).Count);
        Assert.InRange(_queues.Refusals, 10, 40);
    }

    [Fact]
    public async Task Attempts_that_take_longer_than_their_pause_take_turns_with_output_for_another_node()
    {
        var lastBefore = 0;
        var done = new TaskCompletionSource();
        _queues.Full.UnionWith([1, 3]);
        _queues.Refusing = refusal =>
        {
            if (refusal == 4)
                Write(Second, "b");
            if (_queues.Texts(2).Count == 0)
                lastBefore = refusal;
            if (refusal < 20)
                _clock.Advance(Options.MaxRetryDelay);
            else
                done.TrySetResult();
        };

        Write(First, "a");
        Write(Third, "c");

        await done.Task.WithinDeadline();
        Assert.InRange(lastBefore, 4, 5);
    }

    // Output of a scope is sent on the writer's thread, so it has been tried when this returns.
    private void Write(OutputHandle handle, string text)
    {
        using (_buffer.BeginBufferingScope(handle))
            _buffer.Write(handle, text);
    }
}
