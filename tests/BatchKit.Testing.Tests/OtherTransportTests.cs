using BatchKit.Testing.Specification;
using BatchKit.Transports;

namespace BatchKit.Testing.Tests;

/// <summary>Transports of users that are right, and differ from ours: small batches, and a client that throws what it likes when a send is cancelled.</summary>
public sealed class OtherTransportTests : TransportSpecification
{
    private const int SmallBytes = 32 * 1024;

    protected override TransportPromises Promises => TransportPromises.Ordered | TransportPromises.Once | TransportPromises.AcknowledgesAfterNextHop;

    [Fact]
    public async Task A_transport_that_acknowledges_nothing_fails_its_rule_with_its_own_error()
    {
        await using var rules = new SilentTransportTests();
        await rules.InitializeAsync();

        await Assert.ThrowsAsync<BatchSendException>(() => rules.A_next_hop_may_throw_anything().WithinDeadline());
    }

    [Fact]
    public void A_route_that_is_away_has_the_limits_of_its_transport()
    {
        IBatchTransport away = new AwayTransport(Harness.Transport);

        Assert.Equal((SmallBytes, SmallBytes, "the option"), (away.MaxBatchBytes, away.MaxSendBytes, away.LimitingSetting));
    }

    [Fact]
    public async Task A_route_that_was_away_sends_once_its_broker_is_back()
    {
        var away = new AwayTransport(Collected);
        MessageBatch[] batches = [Some.Batch(Connection(), Some.Producer(), 1, "sent again")];
        await Assert.ThrowsAsync<IOException>(() => away.SendAsync(batches, CancellationToken.None).AsTask());

        away.ComeBack();
        await away.SendAsync(batches, CancellationToken.None);

        Assert.Equal(["sent again"], Collected.Texts);
    }

    [Fact]
    public async Task A_script_asks_once_which_batch_to_refuse()
    {
        var (asked, transport) = (0, new ScriptedTransport(Collected));
        transport.RefuseWhere(_ => ++asked == 2);
        MessageBatch[] batches = [.. Enumerable.Range(1, 3).Select(number => Some.Batch(Connection(), Some.Producer(), number, $"{number}"))];

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(batches, CancellationToken.None).AsTask());

        Assert.Equal((3, BatchOutcome.Refused), (asked, failure.Outcomes[1]));
        Assert.Equal(["1", "3"], Collected.Texts);
    }

    protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) => new(new Connected(new SmallTransport(nextHop)));

    private sealed class Connected(IBatchTransport transport) : TransportHarness
    {
        public override IBatchTransport Transport => transport;

        public override ValueTask DisposeTransportAsync() => (transport as IAsyncDisposable)?.DisposeAsync() ?? default;

        public override ValueTask DisposeAsync() => DisposeTransportAsync();
    }

    private sealed class SmallTransport(IBatchTransport next) : IBatchTransport, IAsyncDisposable
    {
        private readonly InMemoryTransport _inner = new(next, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) });

        public int MaxMessageBytes => int.MaxValue;

        public int MaxBatchBytes => SmallBytes;

        public int MaxSendBytes => SmallBytes;

        public string LimitingSetting => "the option";

        public ValueTask DisposeAsync() => _inner.DisposeAsync();

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            cancellationToken.ThrowIfCancellationRequested();
            try
            {
                await _inner.SendAsync(batches, cancellationToken);
            }
            catch (OperationCanceledException exception)
            {
                throw new TimeoutException("The client was told to stop.", exception);
            }
        }
    }

    // Not discovered, because it is not public.
    private sealed class SilentTransportTests : TransportSpecification
    {
        protected override TransportPromises Promises => TransportPromises.None;

        protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) => new(new Connected(new SilentTransport()));
    }

    private sealed class SilentTransport : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => ValueTask.FromException(new BatchSendException([], "It sends nothing."));
    }
}
