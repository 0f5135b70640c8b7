using BatchKit.Postgres.Frames;
using BatchKit.Testing;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Postgres.Tests.Frames;

public sealed class OutboxHandlerTests
{
    [Fact]
    public async Task A_claim_that_is_cancelled_takes_its_fault_along()
    {
        using var claim = new CancellationTokenSource();
        var handler = new OutboxHandler(new ScriptedTransport(new CollectingTransport()).Fail(), new PostgresOutboxOptions(), new ManualTimeProvider(), NullLogger.Instance, CancellationToken.None);
        var frame = Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "one"));
        var message = new QueueMessage(OutputHandle.Named("outbox"), id: 1, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, frame);

        var handling = handler.HandleAsync([message], claim.Token);
        await Until.TrueAsync(() => handler.Fault is not null);
        await claim.CancelAsync();
        await handling.WithinDeadline();

        Assert.Null(handler.Fault);
        Assert.Equal(MessageOutcome.Released, message.Outcome);
    }

    [Fact]
    public async Task A_send_that_ignores_its_token_is_left_with_its_memory_and_made_again()
    {
        var arrived = new CollectingTransport();
        var inner = new ScriptedTransport(arrived);
        var hanging = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var second = inner.Then(async (batches, _) =>
        {
            await hanging.Task;
            await arrived.SendAsync(batches, CancellationToken.None);
        }).Stall();
        var handler = new OutboxHandler(inner, new PostgresOutboxOptions { SendTimeout = TimeSpan.FromMilliseconds(500) }, TimeProvider.System, NullLogger.Instance, CancellationToken.None);
        var frame = Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "one"));
        var message = new QueueMessage(OutputHandle.Named("outbox"), id: 1, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, frame);

        var handling = handler.HandleAsync([message], CancellationToken.None);
        await second.EnteredAsync();
        var fault = handler.Fault;
        second.Release();
        await handling.WithinDeadline();
        hanging.SetResult();
        await arrived.WaitForMessagesAsync(2);

        Assert.Contains("did not end when its token was cancelled", fault, StringComparison.Ordinal);
        Assert.Null(handler.Fault);
        Assert.Equal(MessageOutcome.Done, message.Outcome);
        Assert.Equal(["one", "one"], arrived.Texts);
    }
}
