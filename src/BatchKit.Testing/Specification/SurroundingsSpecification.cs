using System.Collections.Concurrent;
using System.Diagnostics;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Transactions;
using BatchKit.Transports;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>The rules that every transport keeps, with its receiver, in hostile surroundings: loggers that throw, clocks that lie, callers with a context, and bad neighbours.</summary>
/// <remarks><see cref="TransportSpecification"/> has them all. The harness takes its clock and its loggers from <see cref="TransportTest.Surroundings"/>.</remarks>
public abstract class SurroundingsSpecification : NeighbourSpecification
{
    private static readonly AsyncLocal<string?> Ambient = new();

    /// <summary>The size of a message that the transport must refuse; null when its limit is too high for a test.</summary>
    private int? TooLargeBytes => Harness.Transport.MaxMessageBytes is <= 64 << 20 and var limit ? (2 * limit) + 65_536 : null;

    /// <summary>Loggers that throw at the first, second or any call, once or always, stop nothing: the receiver also retries when its next hop fails.</summary>
    /// <param name="polite">How many calls pass before the loggers begin to throw; negative for a random number.</param>
    /// <param name="faults">How many calls throw then.</param>
    [Theory]
    [InlineData(0, int.MaxValue)]
    [InlineData(0, 1)]
    [InlineData(1, 1)]
    [InlineData(1, int.MaxValue)]
    [InlineData(-1, int.MaxValue)]
    public async Task Loggers_that_throw_stop_nothing(int polite, int faults)
    {
        polite = polite < 0 ? Random.Shared.Next(2, 12) : polite;
        using var loggers = new ThrowingLoggerFactory(polite, faults);
        await ReconnectAsync(new Surroundings { LoggerFactory = loggers });
        var (refused, handle, producer) = (Connection(), Connection(), Some.Producer());
        NextHop.RefuseWhere(batch => batch.Handle == refused);
        NextHop.Fail(sends: 3);

        await SettleAsync(Some.Batch(refused, producer, 1, "refused"));
        await SettleNumbersAsync(handle, producer, 2, 20);
        await Collected.WaitForMessagesAsync(19);

        Assert.Equal(Numbers(2, 20), Collected.Texts);
    }

    /// <summary>No log of the transport or the receiver, at whatever level, has a byte of a payload: not when all is well, nor when batches fail, are refused or are too large.</summary>
    [Fact]
    public async Task No_byte_of_a_payload_reaches_a_log()
    {
        using var log = new PayloadWatch();
        await ReconnectAsync(new Surroundings { LoggerFactory = log });
        var (refused, handle, producer) = (Connection(), Connection(), Some.Producer());
        var header = new MessageHeader { Key = "\0", ContentType = "\u001b[2J", Properties = [new("same", "1"), new("same", "2")] };
        NextHop.RefuseWhere(batch => batch.Handle == refused);
        NextHop.Fail(sends: 3);

        await SettleAsync(Some.Batch(refused, producer, 1, PayloadWatch.Secret));
        await SettleAsync(MessageBatch.Create(handle, producer, 2, Some.Message(PayloadWatch.Secret, header)));
        if (TooLargeBytes is { } tooLarge)
            await SettleAsync(Some.Batch(handle, producer, 3, PayloadWatch.Repeat(tooLarge)));
        await SettleAsync(Some.Batch(handle, producer, 4, PayloadWatch.Secret, "last"));
        for (var count = 1; !Collected.Texts.Contains("last", StringComparer.Ordinal); count++)
            await Collected.WaitForMessagesAsync(count);

        // Its end is logged too.
        await ReconnectAsync(new Surroundings());
        PayloadWatch.AssertHasNone(log.Text);
    }

    /// <summary>Whatever a next hop throws, the receiver retries the batch, in order.</summary>
    [Fact]
    public async Task A_next_hop_may_throw_anything()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        Exception[] failures =
        [
            new OperationCanceledException("Not by a token of the receiver."), new TaskCanceledException(), new ObjectDisposedException("next hop"), new AggregateException(),
            new TransactionException(), new TimeoutException(), new HostileException(), new HostileException(reads: 1), new IOException("A cause that can't be read.", new HostileException()),
        ];

        for (var number = 1; number <= failures.Length; number++)
        {
            NextHop.Fail(exception: failures[number - 1]);
            await SettleAsync(Some.Batch(handle, producer, number, $"{number}"));
        }

        await Collected.WaitForMessagesAsync(failures.Length);
        Assert.Equal(Numbers(1, failures.Length), Collected.Texts);
    }

    /// <summary>A callback of a send's token that throws when the send is cancelled harms no later send.</summary>
    [Fact]
    public async Task A_cancellation_callback_that_throws_harms_no_later_send()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        var stalled = NextHop.Stall();
        using var cancellation = new CancellationTokenSource();
        await using var registration = cancellation.Token.Register(static () => throw new InvalidOperationException("A callback throws."));
        MessageBatch[] batches = [Some.Batch(handle, producer, 1, "cancelled")];

        var sending = Harness.Transport.SendAsync(batches, cancellation.Token).AsTask();
        await stalled.EnteredAsync();
        await Assert.ThrowsAsync<AggregateException>(cancellation.CancelAsync);
        stalled.Release();
        await Task.WhenAny(sending.WithinDeadline());
        await SettleAsync(Some.Batch(handle, producer, 2, "later"));

        // The cancelled one may arrive too, and more than once while the broker delivers it again.
        for (var count = 1; !Collected.Texts.Contains("later", StringComparer.Ordinal); count++)
            await Collected.WaitForMessagesAsync(count);
    }

    /// <summary>The context in which a transport and its receiver are connected does not reach their background loops, and its end stops nothing.</summary>
    [Fact]
    public async Task The_context_of_whoever_connects_reaches_no_background_loop()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        await ConnectInContextAsync();
        var seen = new ConcurrentQueue<string>();
        for (var send = 0; send < 3; send++)
        {
            NextHop.Then((batches, cancellationToken) =>
            {
                DescribeContext(seen);
                return Collected.SendAsync(batches, cancellationToken);
            });
        }

        await SettleNumbersAsync(handle, producer, 1, 3);
        await Collected.WaitForMessagesAsync(3);

        Assert.Empty(seen);
        Assert.Equal(["1", "2", "3"], Collected.Texts);
    }

    /// <summary>A send promises the same inside a caller's transaction, culture and activity: what was sent arrives, even when the transaction is rolled back.</summary>
    [Fact]
    public async Task The_context_of_a_caller_changes_no_send()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        var culture = CultureInfo.CurrentCulture;

        using (new TransactionScope(TransactionScopeAsyncFlowOption.Enabled))
        {
            CultureInfo.CurrentCulture = HostileCulture();
            await SettleAsync(Some.Batch(handle, producer, 1, "rolled back"));
        }

        CultureInfo.CurrentCulture = culture;
        await SettleAsync(Some.Batch(handle, producer, 2, "after"));
        await Collected.WaitForMessagesAsync(2);

        Assert.Equal(["rolled back", "after"], Collected.Texts);
    }

    /// <summary>Timers that fire early, late, twice and out of order lose nothing.</summary>
    /// <param name="seed">The seed of the faults.</param>
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Timers_that_fire_early_late_and_twice_lose_nothing(int seed)
    {
        var clock = new ManualTimeProvider { TimerFaults = TimerFaults.Random(seed) };
        await using var passing = new PassingTime(clock);
        await ReconnectAsync(new Surroundings { TimeProvider = clock });
        var (handle, producer) = (Connection(), Some.Producer());
        NextHop.Fail(sends: 4);

        await SettleNumbersAsync(handle, producer, 1, 20);
        await Collected.WaitForMessagesAsync(20);

        AssertArrived(Numbers(1, 20));
    }

    /// <summary>A next hop that is slow once, on a machine that stands still for longer than every time limit and whose wall clock jumps, loses nothing.</summary>
    [Fact]
    public async Task A_machine_that_stands_still_under_a_slow_next_hop_loses_nothing()
    {
        var clock = new ManualTimeProvider();
        await using var passing = new PassingTime(clock);
        await ReconnectAsync(new Surroundings { TimeProvider = clock });
        var (handle, producer) = (Connection(), Some.Producer());
        var stalled = NextHop.Stall(ignoresCancellation: true);
        var slow = SettleAsync(Some.Batch(handle, producer, 1, "1"));
        await stalled.EnteredAsync();

        foreach (var jump in new[] { TimeSpan.FromHours(1), TimeSpan.FromHours(-2) })
        {
            clock.JumpWallClock(jump);
            clock.Advance(TimeSpan.FromMinutes(2));
        }

        stalled.Release();
        await slow;
        await SettleNumbersAsync(handle, producer, 2, 10);
        await Collected.WaitForMessagesAsync(10);

        AssertArrived(Numbers(1, 10));
    }

    /// <summary>Options that are changed after the transport and its receiver were connected have no effect. Needs <see cref="TransportHarness.Options"/>.</summary>
    [Fact]
    [RequiresUnreferencedCode("Finds the properties of the options by reflection.")]
    public async Task Options_that_change_later_have_no_effect()
    {
        Assert.SkipWhen(Harness.Options.Count == 0, "The harness names no options.");
        var (handle, producer) = (Connection(), Some.Producer());
        await SettleAsync(Some.Batch(handle, producer, 1, "1"));

        foreach (var options in Harness.Options)
            OptionSpoiler.Spoil(options);
        NextHop.Fail(sends: 2);
        await SettleNumbersAsync(handle, producer, 2, 10);
        await Collected.WaitForMessagesAsync(10);

        AssertArrived(Numbers(1, 10));
    }

    /// <summary>One message among a hundred that is larger than the transport's limit is refused alone; the others arrive, in order.</summary>
    [Fact]
    public async Task A_message_that_is_too_large_is_refused_alone()
    {
        Assert.SkipWhen(TooLargeBytes is null, "The transport has no limit that a test can pass.");
        var (handle, producer) = (Connection(), Some.Producer());
        var tooLarge = new BatchMessage(new byte[TooLargeBytes.Value]);
        MessageBatch[] batches =
        [
            .. Enumerable.Range(1, 100).Select(number =>
                number == 50 ? MessageBatch.Create(handle, producer, number, tooLarge) : Some.Batch(handle, producer, number, $"{number}")),
        ];

        var refused = await SettleAsync(batches);
        await Collected.WaitForMessagesAsync(99);

        Assert.Equal([50L], refused.Select(static batch => batch.Number));
        AssertArrived([.. Numbers(1, 49), .. Numbers(51, 100)]);
    }

    /// <summary>Messages with unusual names and headers among a hundred arrive or are refused alone; the others arrive, in order.</summary>
    [Fact]
    public async Task Unusual_names_and_headers_harm_no_neighbour()
    {
        var (handle, producer) = (Connection(), Some.Producer());
        var unusual = UnusualBatches(producer, first: 51).ToArray();
        MessageBatch[] batches =
        [
            .. Enumerable.Range(1, 50).Select(number => Some.Batch(handle, producer, number, $"{number}")),
            .. unusual,
            .. Enumerable.Range(51 + unusual.Length, 50).Select(number => Some.Batch(handle, producer, number, $"{number}")),
        ];

        var refused = await SettleAsync(batches);
        await Collected.WaitForMessagesAsync(batches.Length - refused.Count);

        Assert.All(refused, batch => Assert.Contains(batch, unusual));
        Assert.Equal([.. batches.Where(batch => batch.Handle == handle).Select(static batch => $"{batch.Number}")], Collected.TextsFor(handle));
    }

    private void AssertArrived(string[] texts) => AssertArrived(texts, Collected.Texts);

    private async Task ConnectInContextAsync()
    {
        using var activity = new Activity("whoever connects").Start();
        using var transaction = new TransactionScope(TransactionScopeAsyncFlowOption.Enabled);
        Ambient.Value = "whoever connects";
        CultureInfo.CurrentCulture = HostileCulture();
        var before = SynchronizationContext.Current;
        SynchronizationContext.SetSynchronizationContext(new PoolContext());
        try
        {
            await ReconnectAsync(new Surroundings()).ConfigureAwait(false);
        }
        finally
        {
            SynchronizationContext.SetSynchronizationContext(before);
        }
    }

    private static void DescribeContext(ConcurrentQueue<string> seen)
    {
        if (Ambient.Value is { } value)
            seen.Enqueue($"an AsyncLocal: {value}");
        if (Transaction.Current is not null)
            seen.Enqueue("a transaction");
        if (Activity.Current?.OperationName == "whoever connects")
            seen.Enqueue("an activity");
        if (SynchronizationContext.Current is PoolContext)
            seen.Enqueue("a synchronization context");
        if (CultureInfo.CurrentCulture.NumberFormat.NegativeSign == HostileCulture().NumberFormat.NegativeSign)
            seen.Enqueue("a culture");
    }

    // Numbers that are formatted in this culture can't be read in another.
    private static CultureInfo HostileCulture()
    {
        var culture = (CultureInfo)CultureInfo.InvariantCulture.Clone();
        culture.NumberFormat.NegativeSign = "minus ";
        culture.NumberFormat.NumberDecimalSeparator = ";";
        return culture;
    }

    private IEnumerable<MessageBatch> UnusualBatches(ProducerId producer, int first)
    {
        string[] texts = ["\t", "\0", "\u001b[2J", "\ufffe", "\u202e", "/", "a/+/#", "*.#.>", "'; --", new string('x', 200), "😀", " "];
        foreach (var text in texts)
        {
            yield return Some.Batch(OutputHandle.Named($"group {text}"), producer, first++, "a name");
            var header = new MessageHeader { Key = text, ContentType = text, Properties = [new(text, text), new("same", text), new("same", text)] };
            yield return MessageBatch.Create(Connection(), producer, first++, Some.Message("a header", header));
        }
    }

    /// <summary>Runs what is posted on the pool. A loop that kept it would post to a context that its creator has left.</summary>
    private sealed class PoolContext : SynchronizationContext
    {
        public override void Post(SendOrPostCallback d, object? state) => ThreadPool.QueueUserWorkItem(_ => d(state));
    }
}
