using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;
using Grains;

namespace BatchKit.Pages.Tests.Orleans;

/// <summary>The transport of docs/orleans.md, with observers that fail.</summary>
public sealed class ObserverTransportTests
{
    private readonly OutputHandle _first = Some.Connection();
    private readonly OutputHandle _second = Some.Connection();
    private readonly OutputHandle _third = Some.Connection();
    private readonly List<string> _calls = [];
    private readonly ObserverTransport _transport = new();

    [Fact]
    public async Task An_observer_that_throws_has_only_its_own_calls_repeated_in_order()
    {
        _transport.Observers[_first] = Returning();
        _transport.Observers[_second] = new Observer(static _ => throw new TimeoutException("The client is slow."));
        _transport.Observers[_third] = Returning();

        var failure = await SendAsync((_first, "a"), (_second, "b"), (_third, "c"), (_second, "d"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged], failure.Outcomes);
        Assert.IsType<TimeoutException>(failure.InnerException);
        Assert.Equal(["a", "c"], _calls);
    }

    [Fact]
    public async Task A_send_that_is_cancelled_at_an_observer_repeats_only_what_was_not_called_before()
    {
        using var cancellation = new CancellationTokenSource();
        _transport.Observers[_first] = Returning();
        _transport.Observers[_second] = new Observer(_ =>
        {
            cancellation.Cancel();
            return new TaskCompletionSource().Task;
        });
        _transport.Observers[_third] = Returning();

        var failure = await SendAsync(cancellation.Token, (_first, "a"), (_second, "b"), (_third, "c"));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged], failure.Outcomes);
        Assert.Equal(["a"], _calls);
    }

    private Task<BatchSendException> SendAsync(params (OutputHandle Player, string Text)[] batches) => SendAsync(CancellationToken.None, batches);

    private async Task<BatchSendException> SendAsync(CancellationToken cancellationToken, params (OutputHandle Player, string Text)[] batches)
    {
        var producer = Some.Producer();
        MessageBatch[] send = [.. batches.Select((batch, index) => Some.Batch(batch.Player, producer, index + 1, batch.Text))];
        return await Assert.ThrowsAsync<BatchSendException>(() => _transport.SendAsync(send, cancellationToken).WithinDeadline());
    }

    private Observer Returning() => new(text =>
    {
        _calls.Add(text);
        return Task.CompletedTask;
    });

    private sealed class Observer(Func<string, Task> receive) : IPlayerObserver
    {
        public Task ReceiveAsync(byte[] output) => receive(Encoding.UTF8.GetString(output));
    }
}
