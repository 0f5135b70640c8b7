using BatchKit.Transports;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>What every test of a transport has: a harness with a next hop that collects, and that a script may make fail.</summary>
public abstract class TransportTest : IAsyncLifetime
{
    private readonly CollectingTransport _collected = new();
    private readonly ScriptedTransport _nextHop;
    private TransportHarness? _harness;

    /// <summary>Makes the parts that every test has of its own.</summary>
    protected TransportTest() => _nextHop = new ScriptedTransport(_collected);

    /// <summary>What is promised beyond what every transport must do.</summary>
    protected abstract TransportPromises Promises { get; }

    /// <summary>The node whose connections the harness's receiver serves.</summary>
    protected virtual int ReceiverNode => 1;

    /// <summary>A message size near the largest that is taken; 1 MiB by default.</summary>
    protected virtual int LargeMessageBytes => 1024 * 1024;

    /// <summary>What arrived at the next hop.</summary>
    protected CollectingTransport Collected => _collected;

    /// <summary>The receiver's next hop, which a test's script may make fail.</summary>
    protected ScriptedTransport NextHop => _nextHop;

    /// <summary>The harness of this test.</summary>
    protected TransportHarness Harness => _harness ?? throw new InvalidOperationException("The test has not begun.");

    /// <inheritdoc/>
    public virtual async ValueTask InitializeAsync() => _harness = await CreateAsync(_nextHop);

    /// <inheritdoc/>
    public virtual async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        if (_harness is not null)
            await _harness.DisposeAsync();
    }

    /// <summary>Connects a transport to a receiver whose next hop this is, for <see cref="ReceiverNode"/>. Retry delays should be a few milliseconds.</summary>
    protected abstract ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop);

    /// <summary>A connection that lives on the receiver's node.</summary>
    protected OutputHandle Connection() => Some.Connection(ReceiverNode);

    /// <summary>Sends, within the deadline of a test.</summary>
    protected Task SendAsync(params MessageBatch[] batches) => Harness.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    /// <summary>Skips the test where the transport does not promise this.</summary>
    protected void Require(TransportPromises promise) => Assert.SkipUnless(Promises.HasFlag(promise), $"This transport does not promise {promise}.");
}

/// <summary>A transport and its receiver, connected and receiving, with a topology of their own.</summary>
public abstract class TransportHarness : IAsyncDisposable
{
    /// <summary>The transport under test.</summary>
    public abstract IBatchTransport Transport { get; }

    /// <summary>Disposes the transport alone.</summary>
    public abstract ValueTask DisposeTransportAsync();

    /// <summary>Disposes everything that was made; the transport may be disposed already.</summary>
    public abstract ValueTask DisposeAsync();
}

/// <summary>What a transport and its receiver promise, beyond what every one must.</summary>
[Flags]
public enum TransportPromises
{
    /// <summary>Only what every one must: each message arrives at least once.</summary>
    None = 0,

    /// <summary>Order holds across all handles of one producer.</summary>
    Ordered = 1,

    /// <summary>What is sent again is dropped by the receiver.</summary>
    Once = 2,

    /// <summary>A send completes only after the receiver's next hop has the batches.</summary>
    AcknowledgesAfterNextHop = 4,

    /// <summary>A batch for a connection whose node has no receiver is refused, and its neighbours are not.</summary>
    RefusesMissingNodes = 8,
}
