using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

public sealed class InlineLossTests
{
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task The_end_of_a_scope_throws_when_an_inline_hop_refuses_before_it_returns()
    {
        await using var buffer = new OutputBuffer(new RefusingTransport());
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "line 0");
        buffer.Write(_handle, "line 1");

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(2, failure.LostMessages);
    }

    [Fact]
    public async Task The_end_of_an_ambient_scope_over_several_handles_throws_when_an_inline_hop_refuses()
    {
        await using var buffer = new OutputBuffer(new RefusingTransport());
        var scope = buffer.BeginBufferingScope();
        buffer.Write(_handle, "line 0");
        buffer.Write(Some.Connection(), "line 1");

        await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(2, buffer.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_flush_throws_when_an_inline_hop_refuses_before_it_returns()
    {
        await using var buffer = new OutputBuffer(new RefusingTransport());
        using var scope = buffer.BeginBufferingScope(_handle);

        buffer.Write(_handle, "line 0");
        await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());
        buffer.Write(_handle, "line 1");
        await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync().WithinDeadline());

        await buffer.FlushAsync(_handle).WithinDeadline();
    }

    [Fact]
    public async Task A_flush_reports_every_loss_that_no_one_was_told_of_when_many_were_told_in_between()
    {
        await using var buffer = new OutputBuffer(new RefusingTransport());
        const int losses = 40;
        for (var index = 0; index < losses; index++)
        {
            var scope = buffer.BeginBufferingScope(_handle);
            buffer.Write(_handle, "told");
            await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
            buffer.Write(_handle, "not told");
        }

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());

        Assert.Equal(losses, failure.LostMessages);
        Assert.Equal(2 * losses, buffer.GetStatistics().FailedMessages);
    }

    private sealed class RefusingTransport : IBatchTransport
    {
        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
            throw new BatchSendException([.. Enumerable.Repeat(BatchOutcome.Refused, batches.Length)], "Nobody is there.");
    }
}
