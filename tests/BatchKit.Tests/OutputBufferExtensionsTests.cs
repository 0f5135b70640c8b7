using System.Text;
using BatchKit.Testing;
using BatchKit.Tests.Buffering;
using BatchKit.Tests.Support;

namespace BatchKit.Tests;

[Collection(nameof(MeasuresMemory))]
public sealed class OutputBufferExtensionsTests : IAsyncDisposable
{
    private readonly OutputHandle _player = Some.Connection();
    private readonly CollectingTransport _arrived = new();
    private OutputBuffer _output;

    public OutputBufferExtensionsTests() => _output = new OutputBuffer(_arrived, timeProvider: new ManualTimeProvider());

    public ValueTask DisposeAsync() => _output.DisposeAsync();

    [Fact]
    public async Task Every_way_to_write_text_sends_its_UTF_8_and_nothing_more()
    {
        var (name, count) = ("Zoë", 3);

        _output.Write(_player, "text");
        _output.Write(_player, "a span of text".AsSpan(2, 4));
        _output.Write(_player, $"{name} has {count,2}");
        _output.Write(_player, $"constant");
        Assert.True(_output.TryWrite(_player, "tried"));
        Assert.True(_output.TryWrite(_player, $"{name} tried"));
        await _output.WriteAsync(_player, "awaited", cancellationToken: TestContext.Current.CancellationToken);
        await _output.WriteAsync(_player, $"{name} awaited", cancellationToken: TestContext.Current.CancellationToken);
        await _output.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["text", "span", "Zoë has  3", "constant", "tried", "Zoë tried", "awaited", "Zoë awaited"], _arrived.Texts);
    }

    [Fact]
    public async Task A_scope_that_is_opened_by_name_holds_back_that_destination_alone()
    {
        using (_output.BeginBufferingScope("lobby"))
        {
            _output.Write(OutputHandle.Named("lobby"), "held back");
            _output.Write(_player, "sent");

            Assert.Equal(["sent"], _arrived.Texts);
        }

        await _output.FlushAsync(TestContext.Current.CancellationToken);
        Assert.Equal(["sent", "held back"], _arrived.Texts);
    }

    [Fact]
    public async Task A_scope_that_is_opened_by_name_may_have_a_limit()
    {
        var clock = new ManualTimeProvider();
        await using var output = new OutputBuffer(_arrived, timeProvider: clock);
        using var scope = output.BeginBufferingScope("lobby", TimeSpan.FromSeconds(1));
        output.Write(OutputHandle.Named("lobby"), "held back");
        var heldBack = _arrived.MessageCount == 0;

        clock.Advance(TimeSpan.FromSeconds(2));

        await _arrived.WaitForMessagesAsync(1);
        Assert.True(heldBack);
        Assert.Equal(1, output.GetStatistics().OpenScopes);
    }

    [Fact]
    public async Task Bytes_are_written_as_they_are()
    {
        var bytes = Some.Bytes("bytes");
        ReadOnlyMemory<byte> memory = Some.Bytes("memory");

        _output.Write(_player, bytes);
        _output.Write(_player, "literal"u8);
        _output.Write(_player, memory.Span);
        Assert.True(_output.TryWrite(_player, bytes.AsSpan()));
        await _output.WriteAsync(_player, bytes, cancellationToken: TestContext.Current.CancellationToken);
        await _output.WriteAsync(_player, memory, cancellationToken: TestContext.Current.CancellationToken);
        await _output.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["bytes", "literal", "memory", "bytes", "bytes", "memory"], _arrived.Texts);
    }

    [Fact]
    public async Task A_write_of_text_that_waits_keeps_its_bytes_while_its_thread_formats_others()
    {
        var stalled = await FillAsync();

        var first = _output.WriteAsync(_player, $"first {new string('a', 300)}", cancellationToken: TestContext.Current.CancellationToken);
        var second = _output.WriteAsync(_player, new string('b', 300), cancellationToken: TestContext.Current.CancellationToken);
        Assert.False(_output.TryWrite(_player, $"not accepted {new string('c', 300)}"));
        var waited = !first.IsCompleted && !second.IsCompleted;
        stalled.Release();
        await first.AsTask().WithinDeadline();
        await second.AsTask().WithinDeadline();
        await _output.FlushAsync(TestContext.Current.CancellationToken);

        Assert.True(waited);
        Assert.Equal([new string('b', 300), $"first {new string('a', 300)}"], _arrived.TextsFor(_player).Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task A_write_of_text_whose_wait_is_cancelled_sends_nothing()
    {
        using var cancellation = new CancellationTokenSource();
        var stalled = await FillAsync();

        var write = _output.WriteAsync(_player, $"{new string('a', 300)}", cancellationToken: cancellation.Token).AsTask();
        await cancellation.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => write.WithinDeadline());
        stalled.Release();
        await _output.FlushAsync(TestContext.Current.CancellationToken);
        Assert.Empty(_arrived.TextsFor(_player));
    }

    [Fact]
    public async Task Asynchronous_and_tried_writes_of_text_allocate_nothing_when_they_do_not_wait()
    {
        await using var output = new OutputBuffer(new CountingTransport(), timeProvider: new ManualTimeProvider());
        var (name, verb) = ("lantern", "glows");

        Assert.Equal(0, Allocations.Least(() => output.WriteAsync(_player, $"A {name} {verb} here.\r\n").GetAwaiter().GetResult()));
        Assert.Equal(0, Allocations.Least(() => output.WriteAsync(_player, name).GetAwaiter().GetResult()));
        Assert.Equal(0, Allocations.Least(() => output.TryWrite(_player, $"A {name} {verb} here.\r\n")));
        Assert.Equal(0, Allocations.Least(() => output.TryWrite(_player, name)));
    }

    [Theory]
    [InlineData(nameof(IOutputBuffer.Write))]
    [InlineData(nameof(IOutputBuffer.TryWrite))]
    [InlineData(nameof(IOutputBuffer.WriteAsync))]
    public void A_message_that_is_too_large_fails_for_good(string method)
    {
        var larger = new byte[new OutputBufferOptions().MaxMessageBytes + 1];

        var exception = Assert.Throws<OutputOverflowException>(() => WriteBy(method, larger));

        Assert.True(exception.IsPermanent);
        Assert.Equal(nameof(OutputBufferOptions.MaxMessageBytes), exception.LimitName);
    }

    [Fact]
    public async Task A_write_to_a_full_buffer_fails_for_now()
    {
        var stalled = await FillAsync();

        var exception = Assert.Throws<OutputOverflowException>(() => _output.Write(_player, new string('a', 300)));
        stalled.Release();

        Assert.False(exception.IsPermanent);
        Assert.Equal(nameof(OutputBufferOptions.MaxBufferedBytes), exception.LimitName);
    }

    private void WriteBy(string method, byte[] payload)
    {
        switch (method)
        {
            case nameof(IOutputBuffer.Write):
                _output.Write(_player, payload);
                break;
            case nameof(IOutputBuffer.TryWrite):
                _output.TryWrite(_player, payload);
                break;
            default:
                _output.WriteAsync(_player, payload).GetAwaiter().GetResult();
                break;
        }
    }

    private async Task<StalledSend> FillAsync()
    {
        await _output.DisposeAsync();
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        var options = new OutputBufferOptions { MaxBufferedBytes = 2048, MaxMessageBytes = 2000 };
        _output = new OutputBuffer(transport, options, timeProvider: new ManualTimeProvider());
        _output.Write(Some.Connection(), new byte[1900]);
        await stalled.EnteredAsync();
        return stalled;
    }
}
