using System.Collections.Immutable;
using System.Text;
using Xunit;

namespace BatchKit.Testing.Specification;

/// <summary>The rules about bad neighbours, for an output buffer over the transport: a route that is away, a handle whose output does not leave, an encoder that uses the buffer, and exceptions that can't be read harm no other output, and a slow route gets no backlog of latest values.</summary>
/// <remarks><see cref="TransportSpecification"/> has them all.</remarks>
public abstract class NeighbourSpecification : HeaderSpecification
{
    private const string Here = "here";
    private const string Away = "away";
    private const int Capacity = 512 * 1024;

    private static readonly byte[] Kilobyte = new byte[1000];

    /// <summary>A route whose broker is away, whose output has taken all that it can, takes nothing from the transport's own: its messages are accepted and arrive in order.</summary>
    /// <param name="policy">What the buffer does when it is full.</param>
    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task A_route_that_is_away_harms_no_other(OverflowPolicy policy)
    {
        var handle = Connection();
        var away = new AwayTransport(Collected, new HostileException());
        OutputRoute[] routes = [new(Here, Harness.Transport), new(Away, away)];
        await using var buffer = new OutputBuffer(routes, new OneHere(handle), Options(policy));
        for (var message = 0; message < 2 * Capacity / Kilobyte.Length; message++)
            buffer.TryWrite(Some.Connection(), Kilobyte);

        await WriteNumbersAsync(buffer, handle, 100);

        await Collected.WaitForMessagesAsync(handle, 100);
        AssertArrived(Numbers(1, 100), Collected.TextsFor(handle));
        Assert.Equal(0, buffer.GetPendingBytes(handle));
    }

    /// <summary>A handle that writes more than leaves has a share at most: the messages of a hundred others are accepted beside it, and arrive.</summary>
    [Fact]
    public async Task A_greedy_handle_harms_no_other()
    {
        var greedy = Connection();
        var transport = new ScriptedTransport(Harness.Transport);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.Wait));
        buffer.Write(Connection(), "under way");
        await stalled.EnteredAsync();
        var accepted = 0;
        while (buffer.TryWrite(greedy, Kilobyte))
            accepted++;
        OutputHandle[] others = [.. Enumerable.Range(0, 100).Select(_ => Connection())];

        foreach (var other in others)
            buffer.Write(other, "for the other");

        stalled.Release();
        foreach (var other in others)
            await Collected.WaitForMessagesAsync(other, 1);
        await Collected.WaitForMessagesAsync(greedy, accepted);
        Assert.All(others, other => Assert.Equal("for the other", Collected.TextsFor(other)[0]));
    }

    /// <summary>An encoder that closes scopes, opens one, flushes or writes is refused; its neighbours' messages arrive whole, each where it belongs.</summary>
    [Fact]
    public async Task An_encoder_that_uses_the_buffer_harms_no_message()
    {
        var (handle, neighbour) = (Connection(), Connection());
        await using var buffer = new OutputBuffer(Harness.Transport, Options(OverflowPolicy.Wait));
        await using (var scope = buffer.BeginBufferingScope(handle))
        await using (var neighbourScope = buffer.BeginBufferingScope(neighbour))
        {
            Action[] uses = [scope.Dispose, neighbourScope.Dispose, () => buffer.BeginBufferingScope().Dispose(), () => _ = buffer.FlushAsync().AsTask(), () => buffer.Write(neighbour, "no")];
            buffer.Write(handle, "first");
            buffer.Write(neighbour, "for the neighbour");
            foreach (var use in uses)
                Assert.Throws<InvalidOperationException>(() => buffer.Write(handle, maxBytes: 10, use, static (destination, call) => CallAndEncode(destination, call)));
            buffer.Write(handle, "last");
        }

        await Collected.WaitForMessagesAsync(handle, 2);
        await Collected.WaitForMessagesAsync(neighbour, 1);
        AssertArrived(["first", "last"], Collected.TextsFor(handle));
        AssertArrived(["for the neighbour"], Collected.TextsFor(neighbour));
    }

    /// <summary>Sends that fail with an exception whose members throw are retried, and what waited behind them arrives once each, in order.</summary>
    /// <param name="reads">How many reads of the exception pass before its members throw.</param>
    [Theory]
    [InlineData(0)]
    [InlineData(2)]
    public async Task A_failure_that_cannot_be_read_harms_no_message(int reads)
    {
        var handle = Connection();
        var transport = new ScriptedTransport(Harness.Transport).Fail(sends: 2, new HostileException(reads)).Pass().Fail(exception: new AggregateException(new HostileException(reads)));
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.Wait));

        await WriteNumbersAsync(buffer, handle, 10);

        await Collected.WaitForMessagesAsync(handle, 10);
        AssertArrived(Numbers(1, 10), Collected.TextsFor(handle));
        Assert.Equal((10, 10, 0), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().AcknowledgedMessages, buffer.GetStatistics().PendingMessages));
    }

    /// <summary>Of the values of a key that wait for a slow send, the newest arrives; the counters of a quiet buffer add up.</summary>
    [Fact]
    public async Task A_slow_send_leaves_no_backlog_of_latest_values()
    {
        var handle = Connection();
        var transport = new ScriptedTransport(Harness.Transport);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.Wait));
        buffer.WriteLatest(handle, key: 0, "under way");
        await stalled.EnteredAsync();

        for (var value = 1; value <= 1000; value++)
            buffer.WriteLatest(handle, key: value % 10, $"{value}");

        stalled.Release();
        await buffer.FlushAsync(handle).WithinDeadline();
        await Collected.WaitForMessagesAsync(handle, 11);
        AssertArrived(["under way", .. Numbers(991, 1000)], Collected.TextsFor(handle));
        var statistics = buffer.GetStatistics();
        Assert.Equal((1001, 11, 990), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.SupersededMessages));
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages + statistics.SupersededMessages + statistics.PendingMessages);
    }

    /// <summary>What waited behind a slow send for longer than it may is dropped unsent, counted, and told to who waits; the rest arrives.</summary>
    [Fact]
    public async Task What_expires_behind_a_slow_send_is_dropped_and_told()
    {
        var handle = Connection();
        var transport = new ScriptedTransport(Harness.Transport);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, Options(OverflowPolicy.Wait));
        var (soon, late) = (new MessageHeader { TimeToLive = TimeSpan.FromTicks(1) }, new MessageHeader { TimeToLive = TimeSpan.FromDays(1) });
        buffer.Write(handle, "under way");
        await stalled.EnteredAsync();

        for (var number = 1; number <= 30; number++)
            buffer.Write(handle, $"{number}", number % 3 == 0 ? null : number % 3 == 1 ? soon : late);

        stalled.Release();
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(handle).WithinDeadline());
        await Collected.WaitForMessagesAsync(handle, 21);
        AssertArrived(["under way", .. Enumerable.Range(1, 30).Where(static number => number % 3 != 1).Select(static number => $"{number}")], Collected.TextsFor(handle));
        var statistics = buffer.GetStatistics();
        Assert.Equal((10, 31, 21, 10), (failure.LostMessages, statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.ExpiredMessages));
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages + statistics.SupersededMessages + statistics.PendingMessages);
    }

    private OutputBufferOptions Options(OverflowPolicy policy) => Fitting(new OutputBufferOptions
    {
        MaxBufferedBytes = Capacity,
        MaxMessageBytes = 16 * 1024,
        Overflow = policy,
        RetryDelay = TimeSpan.FromMilliseconds(1),
        MaxRetryDelay = TimeSpan.FromMilliseconds(10),
        DrainTimeout = TimeSpan.FromMilliseconds(100),
    });

    private static async Task WriteNumbersAsync(OutputBuffer buffer, OutputHandle handle, int count)
    {
        for (var number = 1; number <= count; number++)
            await buffer.WriteAsync(handle, $"{number}").AsTask().WithinDeadline();
        await buffer.FlushAsync(handle).WithinDeadline();
    }

    private static int CallAndEncode(Span<byte> destination, Action call)
    {
        call();
        return Encoding.UTF8.GetBytes("never", destination);
    }

    private sealed class OneHere(OutputHandle handle) : IOutputRouter
    {
        private static readonly ImmutableArray<string> ToHere = [Here];
        private static readonly ImmutableArray<string> ToAway = [Away];

        public ImmutableArray<string> GetRoutes(OutputHandle written) => written == handle ? ToHere : ToAway;
    }
}
