using BatchKit.Transports;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>
/// What every test of a transport has: the transport and its receiver, connected for that test alone, and behind the receiver a next hop that collects what arrives
/// and fails when the test says so. xunit v3 creates an instance for each test.
/// </summary>
public abstract class TransportTest : IAsyncLifetime
{
    private TransportHarness? _harness;

    /// <summary>Creates the next hop; the transport is connected later, by <see cref="InitializeAsync"/>.</summary>
    protected TransportTest() => NextHop = new ScriptedTransport(Collected);

    /// <summary>What the transport promises. A rule that needs another promise is skipped, with a reason that names the promise.</summary>
    protected abstract TransportPromises Promises { get; }

    /// <summary>The node whose connections the receiver serves; 1 by default.</summary>
    protected virtual int ReceiverNode => 1;

    /// <summary>The size of a large message that the transport must take, in bytes; 1 MiB by default, or the transport's own limit when that is lower.</summary>
    protected virtual int LargeMessageBytes => 1024 * 1024;

    /// <summary>How many sends the rule about cancelled sends cancels; 50 by default.</summary>
    protected virtual int Cancellations => 50;

    /// <summary>What has arrived behind the receiver.</summary>
    protected CollectingTransport Collected { get; } = new();

    /// <summary>The receiver's next hop. Its script decides which sends fail, stall or refuse a batch; the others reach <see cref="Collected"/>.</summary>
    protected ScriptedTransport NextHop { get; }

    /// <summary>The transport and its receiver.</summary>
    /// <exception cref="InvalidOperationException">The test has not begun.</exception>
    protected TransportHarness Harness => _harness ?? throw new InvalidOperationException("The test has not begun.");

    /// <summary>The clock and the loggers of the transport and its receiver, for <see cref="CreateAsync"/>. Nothing fails there unless a rule says so.</summary>
    protected Surroundings Surroundings { get; private set; } = new();

    /// <summary>Connects the transport, before each test.</summary>
    public virtual async ValueTask InitializeAsync() => _harness = await CreateAsync(NextHop);

    /// <summary>Disposes the transport and its receiver, after each test.</summary>
    /// <exception cref="TimeoutException">That took longer than a minute.</exception>
    public virtual async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        if (_harness is not null)
            await _harness.DisposeAsync().WithinDeadline();
    }

    /// <summary>Connects a new transport to a new receiver, on queues or topics that no other test uses. Both get <see cref="Surroundings"/>.</summary>
    /// <param name="nextHop">The receiver hands batches to it. Let the receiver retry after a few milliseconds, because rules make it fail.</param>
    protected abstract ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop);

    /// <summary>Disposes the transport and its receiver, and connects new ones in other surroundings.</summary>
    /// <param name="surroundings">The clock and the loggers of the new ones.</param>
    protected async Task ReconnectAsync(Surroundings surroundings)
    {
        await Harness.DisposeAsync();
        Surroundings = surroundings;
        _harness = await CreateAsync(NextHop);
    }

    /// <summary>A new connection's handle, on <see cref="ReceiverNode"/>.</summary>
    protected OutputHandle Connection() => Some.Connection(ReceiverNode);

    /// <summary>Sends through the transport under test.</summary>
    /// <param name="batches">The batches of one send, in order.</param>
    /// <exception cref="TimeoutException">The send took longer than a minute.</exception>
    protected Task SendAsync(params MessageBatch[] batches) => Harness.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    /// <summary>Skips the test when the transport does not promise this.</summary>
    /// <param name="promise">What the test needs.</param>
    protected void Require(TransportPromises promise) => Assert.SkipUnless(Promises.HasFlag(promise), $"This transport does not promise {promise}.");

    /// <summary>Sends until each batch is acknowledged or refused, as an output buffer does.</summary>
    /// <returns>The batches that were refused.</returns>
    private protected async Task<IReadOnlyList<MessageBatch>> SettleAsync(params MessageBatch[] batches)
    {
        const int maxFailures = 50;
        var refused = new List<MessageBatch>();
        for (var failures = 0; batches.Length > 0; failures++)
        {
            var sending = Harness.Transport.SendAsync(batches, CancellationToken.None).AsTask();
            try
            {
                await sending.WithinDeadline();
                return refused;
            }
            catch (Exception failure) when (sending.IsCompleted && failures < maxFailures)
            {
                refused.AddRange(batches.Where((_, index) => OutcomeOf(failure, index) == BatchOutcome.Refused));
                MessageBatch[] left = [.. batches.Where((_, index) => OutcomeOf(failure, index) is BatchOutcome.Unacknowledged or BatchOutcome.Busy)];
                failures = left.Length < batches.Length ? 0 : failures;
                batches = left;
                await Task.Delay(TimeSpan.FromMilliseconds(20), TimeProvider.System);
            }
        }

        return refused;
    }

    /// <summary>What a send that failed tells of one of its batches.</summary>
    private protected static BatchOutcome OutcomeOf(Exception failure, int index) =>
        failure is BatchSendException { Outcomes: var outcomes } && index < outcomes.Length ? outcomes[index] : BatchOutcome.Unacknowledged;

    /// <summary>Settings of a buffer whose batches fit the transport under test.</summary>
    private protected OutputBufferOptions Fitting(OutputBufferOptions? options = null)
    {
        options ??= new OutputBufferOptions();
        options.MaxBatchBytes = Math.Min(options.MaxBatchBytes, Harness.Transport.MaxBatchBytes);
        return options;
    }

    /// <summary>Sends numbered batches, each settled before the next.</summary>
    private protected async Task SettleNumbersAsync(OutputHandle handle, ProducerId producer, int first, int last)
    {
        for (var number = first; number <= last; number++)
            await SettleAsync(Some.Batch(handle, producer, number, $"{number}"));
    }

    /// <summary>The texts of numbered messages.</summary>
    private protected static string[] Numbers(int first, int last) => [.. Enumerable.Range(first, last - first + 1).Select(number => $"{number}")];

    /// <summary>Asserts that these texts arrived, in order; repeats are allowed only when the transport may repeat.</summary>
    private protected void AssertArrived(string[] texts, IReadOnlyList<string> arrived) =>
        Assert.Equal(texts, Promises.HasFlag(TransportPromises.Once) ? arrived : [.. arrived.Distinct(StringComparer.Ordinal)]);
}

/// <summary>A transport and its receiver, connected and receiving. One test owns it.</summary>
public abstract class TransportHarness : IAsyncDisposable
{
    /// <summary>The transport under test.</summary>
    public abstract IBatchTransport Transport { get; }

    /// <summary>The options objects that the transport and its receiver were created from; none by default. A rule changes all of them afterwards.</summary>
    public virtual IReadOnlyList<object> Options => [];

    /// <summary>Disposes the transport and leaves the receiver running.</summary>
    public abstract ValueTask DisposeTransportAsync();

    /// <summary>Disposes the receiver, and the transport if that was not done yet.</summary>
    public abstract ValueTask DisposeAsync();
}

/// <summary>What a transport and its receiver promise beyond the minimum, which is that each message arrives at least once, in order for each handle.</summary>
[Flags]
public enum TransportPromises
{
    /// <summary>Nothing more than the minimum.</summary>
    None = 0,

    /// <summary>Messages of one producer arrive in order across all handles.</summary>
    Ordered = 1,

    /// <summary>The receiver drops batches that it has seen before.</summary>
    Once = 2,

    /// <summary>A send completes only after the receiver's next hop has acknowledged the batches.</summary>
    AcknowledgesAfterNextHop = 4,

    /// <summary>A send refuses a batch for a connection whose node has no receiver, and delivers the other batches.</summary>
    RefusesMissingNodes = 8,
}
