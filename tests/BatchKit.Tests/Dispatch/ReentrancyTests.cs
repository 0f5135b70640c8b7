using BatchKit.Testing;

namespace BatchKit.Tests.Dispatch;

public sealed class ReentrancyTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task What_a_transport_writes_inside_its_send_goes_behind_what_is_under_way(bool inline)
    {
        var transport = new ScriptedTransport(_arrived, inline);
        await using var buffer = new OutputBuffer(transport);
        transport.Then((batches, cancellationToken) =>
        {
            buffer.Write(_handle, "line 1");
            return _arrived.SendAsync(batches, cancellationToken);
        });

        buffer.Write(_handle, "line 0");

        await _arrived.WaitForMessagesAsync(2);
        Assert.Equal(Some.Lines(2), _arrived.TextsFor(_handle));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Scopes_and_flushes_inside_a_send_complete_when_queued_and_keep_the_order(bool inline)
    {
        var transport = new ScriptedTransport(_arrived, inline);
        await using var buffer = new OutputBuffer(transport);
        transport.Then(async (batches, cancellationToken) =>
        {
            using (buffer.BeginBufferingScope(_handle))
                buffer.Write(_handle, "line 1");
            await using (buffer.BeginBufferingScope(_handle))
                buffer.Write(_handle, "line 2");
            await using (buffer.BeginBufferingScope())
                buffer.Write(_handle, "line 3");
            await Task.Yield();
            buffer.Write(_handle, "line 4");
            await buffer.FlushAsync(_handle, cancellationToken).WithinDeadline();
            await buffer.FlushAsync(cancellationToken).WithinDeadline();
            await _arrived.SendAsync(batches, cancellationToken);
        });

        buffer.Write(_handle, "line 0");

        await _arrived.WaitForMessagesAsync(5);
        Assert.Equal(Some.Lines(5), _arrived.TextsFor(_handle));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_transport_that_writes_in_every_send_neither_deadlocks_nor_deepens_the_stack(bool inline)
    {
        const int Lines = 5000;
        var transport = new ScriptedTransport(_arrived, inline);
        await using var buffer = new OutputBuffer(transport);
        for (var line = 1; line < Lines; line++)
        {
            var text = $"line {line}";
            transport.Then((batches, cancellationToken) =>
            {
                buffer.Write(_handle, text);
                return _arrived.SendAsync(batches, cancellationToken);
            });
        }

        buffer.Write(_handle, "line 0");

        await _arrived.WaitForMessagesAsync(Lines);
        Assert.Equal(Some.Lines(Lines), _arrived.TextsFor(_handle));
    }

    [Fact]
    public async Task An_inline_transport_does_not_see_the_ambient_scope_of_its_caller()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        await using var buffer = new OutputBuffer(transport);
        var other = Some.Connection();
        transport.Then((batches, cancellationToken) =>
        {
            buffer.Write(other, "from the send");
            return _arrived.SendAsync(batches, cancellationToken);
        });

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(_handle, "held");
            await buffer.FlushAsync(_handle);

            Assert.Equal(["held", "from the send"], _arrived.Texts);
        }
    }

    [Fact]
    public async Task An_inline_transport_does_not_see_the_async_locals_of_its_caller()
    {
        var local = new AsyncLocal<string?> { Value = "the writer's" };
        var seen = "nothing";
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        transport.Then((batches, cancellationToken) =>
        {
            seen = local.Value;
            return _arrived.SendAsync(batches, cancellationToken);
        });
        await using var buffer = new OutputBuffer(transport);

        buffer.Write(_handle, "line 0");

        Assert.Null(seen);
        Assert.Equal("the writer's", local.Value);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_write_inside_a_send_to_a_full_buffer_throws_instead_of_waiting_for_its_own_send(bool inline)
    {
        var transport = new ScriptedTransport(_arrived, inline);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = 1024, MaxMessageBytes = 1000 });
        var overflow = new TaskCompletionSource<Exception?>();
        transport.Then(async (batches, cancellationToken) =>
        {
            overflow.SetResult(await Record.ExceptionAsync(() => buffer.WriteAsync(_handle, new byte[500], cancellationToken: cancellationToken).WithinDeadline()));
            await _arrived.SendAsync(batches, cancellationToken);
        });

        buffer.Write(_handle, new byte[900]);

        Assert.IsType<OutputOverflowException>(await overflow.Task.WithinDeadline());
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(1, _arrived.MessageCount);
    }

    [Fact]
    public async Task Two_buffers_that_write_into_each_other_inside_their_sends_do_not_deadlock()
    {
        var (there, back) = (new ScriptedTransport(_arrived, sendsWithoutBlocking: true), new ScriptedTransport(_arrived, sendsWithoutBlocking: true));
        await using var first = new OutputBuffer(there);
        await using var second = new OutputBuffer(back);
        there.Then(async (batches, cancellationToken) =>
        {
            second.Write(_handle, "line 1");
            await second.FlushAsync(cancellationToken).WithinDeadline();
            await _arrived.SendAsync(batches, cancellationToken);
        });
        back.Then((batches, cancellationToken) =>
        {
            first.Write(_handle, "line 2");
            return _arrived.SendAsync(batches, cancellationToken);
        });

        first.Write(_handle, "line 0");

        await _arrived.WaitForMessagesAsync(3);
        Assert.Equal(["line 1", "line 0", "line 2"], _arrived.Texts);
    }
}
