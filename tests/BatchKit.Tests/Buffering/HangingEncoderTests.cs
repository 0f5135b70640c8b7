using System.Text;
using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>An encoder is foreign code and may hang: whoever uses its handle waits for it, and nobody else does.</summary>
public sealed class HangingEncoderTests : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly ManualResetEventSlim _released = new();
    private readonly OutputHandle _other = OutputHandle.Named("other");
    private readonly OutputHandle _hangs = OutputHandle.Named("hangs");
    private OutputBuffer _buffer;
    private Task _hanging = Task.CompletedTask;

    public HangingEncoderTests() => _buffer = new OutputBuffer(_transport = new ScriptedTransport(_arrived));

    /// <summary>What waits for its sender when the encoder begins.</summary>
    public enum Waits
    {
        Message,
        LatestValue,
        ValueOfAClosedScope,
        MessageThatExpires,
    }

    public async ValueTask DisposeAsync()
    {
        _released.Set();
        await _hanging.WithinDeadline();
        await _buffer.DisposeAsync();
        _released.Dispose();
    }

    [Theory]
    [InlineData(Waits.Message, false)]
    [InlineData(Waits.LatestValue, false)]
    [InlineData(Waits.ValueOfAClosedScope, false)]
    [InlineData(Waits.MessageThatExpires, false)]
    [InlineData(Waits.Message, true)]
    [InlineData(Waits.ValueOfAClosedScope, true)]
    public async Task The_partitions_sender_does_not_wait_for_it(Waits waits, bool inWriter)
    {
        var stalled = _transport.Stall();
        _buffer.Write(_other, "line 0");
        await stalled.EnteredAsync();
        using (waits == Waits.ValueOfAClosedScope ? _buffer.BeginBufferingScope(_hangs) : default)
        {
            if (waits is Waits.LatestValue or Waits.ValueOfAClosedScope)
                _buffer.WriteLatest(_hangs, key: 1, "line 1"u8);
            else
                _buffer.Write(_hangs, "line 1"u8, waits == Waits.MessageThatExpires ? new MessageHeader { TimeToLive = TimeSpan.FromHours(1) } : null);
        }

        await HangAsync(inWriter ? WriteInWriter : encoder => _buffer.Write(_hangs, maxBytes: 10, 0, encoder));
        stalled.Release();
        _buffer.Write(_other, "line 2");
        await _arrived.WaitForMessagesAsync(3).WithinDeadline();

        Assert.Equal(["line 0", "line 1", "line 2"], _arrived.Texts.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task What_it_wrote_keeps_its_place_behind_what_was_queued_before()
    {
        var stalled = _transport.Stall();
        _buffer.Write(_other, "line 0");
        await stalled.EnteredAsync();
        _buffer.WriteLatest(_hangs, key: 1, "line 1"u8);
        using (_buffer.BeginBufferingScope())
        {
            _buffer.Write(_hangs, "line 2");
            _buffer.Write(_other, "line 3");
            _buffer.Write(_hangs, maxBytes: 10, 4, static (memory, number) => Encoding.UTF8.GetBytes($"line {number}", memory));
            Assert.Throws<NotSupportedException>(() => _buffer.Write(_hangs, maxBytes: 10, 0, static (_, _) => throw new NotSupportedException()));
            _buffer.Write(_other, "line 5");
        }

        stalled.Release();
        await _arrived.WaitForMessagesAsync(6).WithinDeadline();
        Assert.Equal(Some.Lines(6), _arrived.Texts);
    }

    [Fact]
    public async Task The_end_of_an_ambient_scope_that_covers_it_holds_up_no_other_handle()
    {
        var wrote = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var begun = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var ending = Task.Run(async () =>
        {
            using (_buffer.BeginBufferingScope())
            {
                _buffer.Write(_other, "line 0");
                _buffer.Write(_hangs, "line 1");
                wrote.SetResult();
                await begun.Task;
            }
        });
        await wrote.Task.WithinDeadline();
        await HangAsync(encoder => _buffer.Write(_hangs, maxBytes: 10, 0, encoder));
        begun.SetResult();
        await Task.WhenAny(ending, Task.Delay(50));

        await Task.Run(() => _buffer.Write(_other, "line 2")).WithinDeadline();

        Assert.False(ending.IsCompleted);
        _released.Set();
        await ending.WithinDeadline();
    }

    [Fact]
    public async Task A_writer_that_drops_the_oldest_drops_what_is_next_behind_it()
    {
        await _buffer.DisposeAsync();
        _buffer = new OutputBuffer(_transport, new OutputBufferOptions { Overflow = OverflowPolicy.DropOldest, MaxBufferedBytes = 3000, MaxMessageBytes = 1024 });
        var next = OutputHandle.Named("next");
        _buffer.BeginBufferingScope(_hangs);
        _buffer.BeginBufferingScope(next);
        _buffer.Write(_hangs, new byte[1000]);
        _buffer.Write(next, new byte[1000]);
        await HangAsync(encoder => _buffer.Write(_hangs, maxBytes: 10, 0, encoder));

        await Task.Run(() => _buffer.Write(_other, new string('x', 1000))).WithinDeadline();

        await _arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(_other, _arrived.Batches.Single().Handle);
        Assert.Equal(1, _buffer.GetStatistics().DroppedMessages);
    }

    [Theory]
    [InlineData(OverflowPolicy.DropOldest, 1)]
    [InlineData(OverflowPolicy.DropNewest, 0)]
    public async Task An_encoder_runs_at_most_once_for_a_write_and_only_where_there_is_capacity(OverflowPolicy policy, int expected)
    {
        await _buffer.DisposeAsync();
        _buffer = new OutputBuffer(_transport, new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 4096, MaxMessageBytes = 1024 });
        var stalled = _transport.Stall();
        _buffer.Write(_other, "first");
        await stalled.EnteredAsync();
        for (var message = 0; message < 3; message++)
            _buffer.Write(OutputHandle.Named($"{message}"), new byte[900]);
        _buffer.Write(_hangs, new byte[100]);
        var calls = 0;

        _buffer.Write(_hangs, maxBytes: 1000, 0, (memory, _) =>
        {
            calls++;
            return memory.Length;
        });

        Assert.Equal(expected, calls);
        stalled.Release();
    }

    [Fact]
    public async Task A_writer_that_drops_the_oldest_neither_waits_for_it_nor_drops_what_it_has()
    {
        await _buffer.DisposeAsync();
        _buffer = new OutputBuffer(_transport, new OutputBufferOptions { Overflow = OverflowPolicy.DropOldest, MaxBufferedBytes = 2048, MaxMessageBytes = 1024 });
        var scope = _buffer.BeginBufferingScope(_hangs);
        _buffer.Write(_hangs, new byte[1000]);
        await HangAsync(encoder => _buffer.Write(_hangs, maxBytes: 10, 0, encoder));

        for (var message = 0; message < 10; message++)
            await Task.Run(() => _buffer.Write(_other, new byte[1000])).WithinDeadline();

        _released.Set();
        await _hanging.WithinDeadline();
        scope.Dispose();
        await Until.TrueAsync(() => _arrived.Batches.Any(batch => batch.Handle == _hangs));
    }

    [Fact]
    public async Task A_stop_does_not_wait_for_one_in_a_writer()
    {
        await HangAsync(WriteInWriter);
        _buffer.BeginBufferingScope(_other);
        _buffer.Write(_other, "held");

        var stop = Task.Factory.StartNew(() => _buffer.StopAsync(CancellationToken.None), CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        _ = await stop.WithinDeadline();

        await _arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Contains("held", _arrived.Texts);
    }

    private void WriteInWriter(MessageEncoder<int> encoder)
    {
        using var lines = _buffer.BeginWriting(_hangs);
        lines.Write("line 3");
        lines.Write("line 4");
        lines.Write(maxBytes: 10, 0, encoder);
    }

    private async Task HangAsync(Action<MessageEncoder<int>> write)
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        _hanging = Task.Factory.StartNew(
            () => write((_, _) =>
            {
                entered.SetResult();
                _released.Wait(Deadline.Time);
                return 0;
            }),
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        await entered.Task.WithinDeadline();
    }
}
