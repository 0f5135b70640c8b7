using System.Runtime.InteropServices;
using System.Text;
using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

/// <summary>Messages that their writer encodes straight into the batch.</summary>
[Collection(nameof(MeasuresMemory))]
public sealed class WriteInPlaceTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task What_the_encoder_wrote_arrives_and_may_be_shorter_than_its_maximum()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        using (buffer.BeginBufferingScope(_handle))
        {
            foreach (var line in Some.Lines(3))
                buffer.Write(_handle, maxBytes: 1000, line, static (destination, text) => Encoding.UTF8.GetBytes(text, destination));
            Assert.True(buffer.TryWrite(_handle, maxBytes: 6, "line 3", static (destination, text) => Encoding.UTF8.GetBytes(text, destination), MessageHeader.Prompt));
            buffer.Write(_handle, maxBytes: 10, state: 0, static (_, _) => 0);
        }

        Assert.Equal([.. Some.Lines(4), ""], _arrived.Texts);
        Assert.Equal(MessageKind.Prompt, _arrived.Messages[3].Kind);
        var statistics = buffer.GetStatistics();
        Assert.Equal((5, 24, 0), (statistics.AcceptedMessages, statistics.AcceptedBytes, statistics.BufferedBytes));
    }

    [Fact]
    public async Task The_encoder_gets_exactly_the_memory_that_it_asked_for()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var given = new List<int>();

        foreach (var bytes in new[] { 0, 1, 255, 300, 70_000, 1024 * 1024 })
        {
            buffer.Write(_handle, bytes, given, static (destination, lengths) =>
            {
                lengths.Add(destination.Length);
                destination.Fill((byte)'x');
                return destination.Length;
            });
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal([0, 1, 255, 300, 70_000, 1024 * 1024], given);
        Assert.Equal(given, _arrived.Messages.Select(message => message.Payload.Count(static value => value == 'x')));
    }

    [Fact]
    public async Task The_encoder_writes_to_the_memory_that_the_transport_sends()
    {
        const byte unusual = 0xA7;
        var behind = new List<byte>();
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Then((batches, cancellationToken) =>
        {
            // What the encoder wrote behind its message is not sent. It is here only if no one has copied the message.
            var payload = batches.Span[0].Payload;
            Assert.True(MemoryMarshal.TryGetArray(payload, out var memory));
            behind.AddRange(memory.Array.AsSpan(memory.Offset + memory.Count, 50));
            return _arrived.SendAsync(batches, cancellationToken);
        });
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        ReadOnlySpan<byte> packet = "packet"u8;

        buffer.Write(_handle, maxBytes: 100, packet, static (destination, state) =>
        {
            state.CopyTo(destination);
            destination[state.Length..].Fill(unusual);
            return state.Length;
        });

        Assert.Equal(["packet"], _arrived.Texts);
        Assert.All(behind, value => Assert.Equal(unusual, value));
        Assert.Equal(50, behind.Count);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_encoder_that_throws_or_says_too_much_leaves_nothing_behind(bool inScope)
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        using (inScope ? buffer.BeginBufferingScope(_handle) : default)
        {
            buffer.Write(_handle, "line 0");
            foreach (var wrong in new[] { 11, -1, int.MaxValue, int.MinValue })
                Assert.Throws<InvalidOperationException>(() => buffer.Write(_handle, maxBytes: 10, wrong, static (_, count) => count));
            Assert.Throws<NotSupportedException>(() => buffer.Write(_handle, maxBytes: 10, state: 0, static (_, _) => throw new NotSupportedException()));
            Assert.Throws<NotSupportedException>(() => buffer.TryWrite(Some.Connection(), maxBytes: 10, state: 0, static (_, _) => throw new NotSupportedException()));
            buffer.Write(_handle, "line 1");
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(Some.Lines(2), _arrived.Texts);
        var statistics = buffer.GetStatistics();
        Assert.Equal((2, 2, 0, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages, statistics.BufferedBytes));
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task An_encoder_that_throws_throws_whatever_the_policy_and_drops_nothing(OverflowPolicy policy)
    {
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { Overflow = policy }, timeProvider: _clock);
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.Write(_handle, "line 0");

            Assert.Throws<NotSupportedException>(() => buffer.Write(_handle, maxBytes: 10, state: 0, static (_, _) => throw new NotSupportedException()));
        }

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().DroppedMessages);
    }

    [Fact]
    public async Task An_encoder_that_uses_a_buffer_is_told_that_it_may_not()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        await using var other = new OutputBuffer(_arrived, timeProvider: _clock);
        var neighbour = Some.Connection();
        using var ownScope = buffer.BeginBufferingScope(_handle);
        using var foreignScope = other.BeginBufferingScope(neighbour);
        using var ambientScope = other.BeginBufferingScope();
        other.Write(neighbour, "held");
        other.Write(Some.Connection(), "held");
        var uses = Uses(buffer, other, [ownScope, foreignScope, ambientScope]);

        foreach (var use in uses)
        {
            Assert.Throws<InvalidOperationException>(() => buffer.Write(_handle, maxBytes: 10, use, static (_, call) =>
            {
                call();
                return 0;
            }));
        }

        buffer.Write(_handle, "line 0");
        Assert.Empty(_arrived.Texts);
        ownScope.Dispose();
        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    [Fact]
    public async Task A_message_is_whole_when_its_encoder_ends_the_send_under_way()
    {
        var sent = new TaskCompletionSource();
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Then(async (batches, cancellationToken) =>
        {
            await sent.Task;
            await _arrived.SendAsync(batches, cancellationToken);
        });
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);

        // On a thread without a synchronization context, the send's continuation runs inside SetResult.
        var thread = new Thread(() =>
        {
            buffer.Write(Some.Connection(), "first");
            buffer.Write(_handle, "line 0");
            buffer.Write(_handle, maxBytes: 10, sent, static (destination, ending) =>
            {
                ending.SetResult();
                return Encoding.UTF8.GetBytes("line 1", destination);
            });
        });
        thread.UnsafeStart();
        thread.Join();

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(["first", .. Some.Lines(2)], _arrived.Texts);
    }

    [Fact]
    public async Task A_message_whose_maximum_is_above_the_limit_is_refused_before_it_is_encoded()
    {
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxMessageBytes = 100 }, timeProvider: _clock);
        var isEncoded = false;

        Assert.Throws<OutputOverflowException>(() => buffer.Write(_handle, maxBytes: 101, state: 0, (_, _) =>
        {
            isEncoded = true;
            return 0;
        }));
        Assert.Throws<ArgumentOutOfRangeException>(() => buffer.Write(_handle, maxBytes: -1, state: 0, static (_, _) => 0));
        Assert.Throws<ArgumentNullException>(() => buffer.Write(_handle, maxBytes: 1, state: 0, encode: null!));

        Assert.False(isEncoded);
    }

    [Fact]
    public async Task What_an_encoder_did_not_use_of_its_maximum_is_free_for_the_next()
    {
        var options = new OutputBufferOptions { MaxBufferedBytes = 2048, MaxBufferedBytesPerHandle = 2048, MaxMessageBytes = 1024, Overflow = OverflowPolicy.Fail };
        await using var buffer = new OutputBuffer(_arrived, options, timeProvider: _clock);

        using (buffer.BeginBufferingScope(_handle))
        {
            for (var count = 0; count < 100; count++)
                buffer.Write(_handle, maxBytes: 1000, state: 0, static (_, _) => 2);
        }

        Assert.Equal(100, _arrived.MessageCount);
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    [Fact]
    public async Task A_write_in_place_allocates_nothing()
    {
        var transport = new CountingTransport();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);

        var least = Allocations.Least(() =>
        {
            buffer.Write(_handle, maxBytes: 20, state: 7, static (destination, value) =>
            {
                destination[0] = (byte)value;
                return 1;
            });
            using var scope = buffer.BeginBufferingScope(_handle);
            for (var count = 0; count < 100; count++)
                buffer.TryWrite(_handle, maxBytes: 20, state: count, static (destination, value) => destination.Length - (value % 2));
        });

        Assert.Equal(0, least);
    }

    private Action[] Uses(OutputBuffer buffer, OutputBuffer other, BufferingScope[] scopes) =>
    [
        .. scopes.Select(static scope => new Action(scope.Dispose)),
        .. scopes.Select(static scope => new Action(() => _ = scope.DisposeAsync().AsTask())),
        () => other.BeginBufferingScope(),
        () => _ = other.StopAsync(CancellationToken.None),
        () => other.DisposeAsync().AsTask().GetAwaiter().GetResult(),
        () => buffer.Write(_handle, "line"),
        () => buffer.Write(Some.Connection(), "line"),
        () => other.Write(_handle, "line"),
        () => buffer.BeginBufferingScope(_handle),
        () => buffer.EndBufferingScope(_handle),
        () => _ = buffer.FlushAsync(_handle).AsTask(),
        () => buffer.FlushAsync().AsTask().GetAwaiter().GetResult(),
        () => buffer.GetStatistics(),
        () => buffer.Write(_handle, maxBytes: 1, state: 0, static (_, _) => 1),
    ];
}
