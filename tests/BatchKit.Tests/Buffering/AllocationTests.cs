using System.Diagnostics;
using System.Reflection;
using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

[Collection(nameof(MeasuresMemory))]
public sealed class AllocationTests : IAsyncDisposable
{
    private const int Rounds = 50;

    private static readonly byte[] Payload = Some.RandomBytes(20);

    private readonly CountingTransport _transport = new();
    private readonly OutputHandle _connection = Some.Connection();
    private readonly OutputHandle _group = Some.Group();
    private readonly OutputBuffer _buffer;

    public AllocationTests() => _buffer = new OutputBuffer(_transport, timeProvider: new ManualTimeProvider());

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public void A_scope_with_1000_writes_allocates_nothing()
    {
        Assert.Equal(0, BytesPerRound(() => WriteInScope(_connection)));
        Assert.Equal(0, BytesPerRound(() => WriteInScope(_group)));
        AssertOneBatchEach(messages: 1000);
    }

    [Fact]
    public async Task A_scope_with_1000_batches_of_a_kilobyte_allocates_nothing()
    {
        var payload = Some.RandomBytes(100);
        await using var buffer = new OutputBuffer(_transport, new OutputBufferOptions { MaxBatchMessages = 10 }, timeProvider: new ManualTimeProvider());

        Assert.Equal(0, BytesPerRound(() =>
        {
            using var scope = buffer.BeginBufferingScope(_connection);
            for (var message = 0; message < 10_000; message++)
                buffer.Write(_connection, payload);
        }));
    }

    [Fact]
    public void A_writer_with_1000_messages_allocates_nothing()
    {
        Assert.Equal(0, BytesPerRound(() => WriteByWriter(_connection)));
        Assert.Equal(0, BytesPerRound(() => WriteByWriter(_group)));
        AssertOneBatchEach(messages: 1000);
    }

    [Fact]
    public void An_unscoped_write_allocates_nothing()
    {
        Assert.Equal(0, BytesPerRound(() => _buffer.Write(_connection, Payload)));
        Assert.Equal(0, BytesPerRound(() => _buffer.TryWrite(_group, Payload)));
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void Messages_with_a_time_to_live_allocate_nothing()
    {
        var header = new MessageHeader { TimeToLive = TimeSpan.FromSeconds(1) };

        Assert.Equal(0, BytesPerRound(() =>
        {
            using var scope = _buffer.BeginBufferingScope(_connection);
            for (var count = 0; count < 100; count++)
                _buffer.Write(_connection, Payload, header);
        }));
    }

    [Fact]
    public void A_latest_value_allocates_nothing()
    {
        var scope = _buffer.BeginBufferingScope(_group);

        Assert.Equal(0, BytesPerRound(() => _buffer.WriteLatest(_group, key: 1, Payload)));
        scope.Dispose();
        Assert.Equal(1, _transport.Messages);
    }

    [Fact]
    public void Latest_values_of_ever_new_keys_and_sizes_allocate_nothing()
    {
        var number = 0;

        Assert.Equal(0, BytesPerRound(() =>
        {
            using var scope = _buffer.BeginBufferingScope(_connection);
            for (var count = 0; count < 300; count++)
                _buffer.WriteLatest(_connection, key: (++number / 300 * 1000) + (number % 100), Payload.AsSpan(0, number % 20));
        }));
    }

    [Fact]
    public void An_asynchronous_write_that_finds_capacity_allocates_nothing()
    {
        ReadOnlyMemory<byte> payload = Payload;

        Assert.Equal(0, BytesPerRound(() => _buffer.WriteAsync(_connection, payload).GetAwaiter().GetResult()));
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void Nested_scopes_allocate_nothing()
    {
        Assert.Equal(0, BytesPerRound(WriteNested));
        AssertOneBatchEach(messages: 3);
    }

    [Fact]
    public void Awaiting_the_end_of_a_scope_allocates_nothing()
    {
        Assert.Equal(0, BytesPerRound(() =>
        {
            var scope = _buffer.BeginBufferingScope(_connection);
            _buffer.Write(_connection, Payload);
            scope.DisposeAsync().GetAwaiter().GetResult();
        }));
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void An_interpolated_write_of_text_allocates_nothing()
    {
        var (name, verb) = ("lantern", "glows");

        Assert.Equal(0, BytesPerRound(() => _buffer.Write(_connection, $"A {name} {verb} here.\r\n")));
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void An_interpolated_write_of_numbers_allocates_nothing()
    {
        var isUnoptimized = typeof(OutputBuffer).Assembly.GetCustomAttribute<DebuggableAttribute>() is { IsJITOptimizerDisabled: true };
        Assert.SkipWhen(isUnoptimized, "The debug build boxes a number that it formats; run with -c Release.");
        var (name, number) = ("lantern", 42);

        // The first compilation of a method boxes too; the optimized one comes after some calls, in the background, and late on a busy machine.
        var bytes = long.MaxValue;
        for (var until = Environment.TickCount64 + (2 * (long)Deadline.Time.TotalMilliseconds); bytes != 0 && Environment.TickCount64 < until;)
            bytes = BytesPerRound(() => _buffer.Write(_connection, $"{number}: a {name} is here.\r\n"));

        Assert.Equal(0, bytes);
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void A_write_with_a_shared_header_allocates_nothing()
    {
        Assert.Equal(0, BytesPerRound(() => _buffer.Write(_connection, Payload, MessageHeader.Prompt)));
        AssertOneBatchEach(messages: 1);
    }

    [Fact]
    public void A_flush_with_nothing_to_wait_for_allocates_nothing()
    {
        _buffer.Write(_connection, Payload);

        Assert.Equal(0, BytesPerRound(() => _buffer.FlushAsync(_connection).GetAwaiter().GetResult()));
    }

    [Fact]
    public void An_ambient_scope_allocates_no_more_than_the_copied_context_and_itself()
    {
        var bytes = 0L;

        // A thread without the test's context: each AsyncLocal in it makes every copy larger.
        var thread = new Thread(() => bytes = BytesPerRound(WriteInAmbientScope));
        thread.UnsafeStart();
        thread.Join();

        Assert.InRange(bytes, 1, 200);
        AssertOneBatchEach(messages: 1);
    }

    private void WriteByWriter(OutputHandle handle)
    {
        using var lines = _buffer.BeginWriting(handle);
        for (var count = 0; count < 500; count++)
        {
            lines.Write(Payload);
            Payload.CopyTo(lines.GetSpan(Payload.Length));
            lines.Advance(Payload.Length);
            lines.EndMessage();
        }
    }

    private void WriteInScope(OutputHandle handle)
    {
        using (_buffer.BeginBufferingScope(handle))
        {
            for (var count = 0; count < 1000; count++)
                _buffer.Write(handle, Payload);
        }
    }

    private void WriteInAmbientScope()
    {
        using (_buffer.BeginBufferingScope())
            _buffer.Write(_connection, Payload);
    }

    private void WriteNested()
    {
        using (_buffer.BeginBufferingScope(_connection))
        {
            _buffer.Write(_connection, Payload);
            using (_buffer.BeginBufferingScope(_connection))
            {
                _buffer.Write(_connection, Payload);
                using (_buffer.BeginBufferingScope(_connection))
                    _buffer.Write(_connection, Payload);
            }
        }
    }

    // Warm first: pools fill, and methods are compiled for good.
    private static long BytesPerRound(Action round)
    {
        for (var count = 0; count < Rounds; count++)
            round();
        var before = GC.GetAllocatedBytesForCurrentThread();
        for (var count = 0; count < Rounds; count++)
            round();
        return (GC.GetAllocatedBytesForCurrentThread() - before) / Rounds;
    }

    private void AssertOneBatchEach(int messages) => Assert.Equal(_transport.Batches * messages, _transport.Messages);
}
