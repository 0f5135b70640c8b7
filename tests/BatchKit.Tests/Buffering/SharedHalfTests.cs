using BatchKit.Batches;
using BatchKit.Dispatch;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>A write that waits for the half of the capacity that all routes share has its turn, however busy other routes are.</summary>
public sealed class SharedHalfTests
{
    private const int Node = 3;

    // Two routes and what takes both: three parts of 10,000, and 30,000 for all.
    private const int Capacity = 60_000;
    private const int Own = 10_000;
    private const int Shared = 30_000;

    // More than a part.
    private const int Large = 15_000;

    private readonly ByteBudget _budget = new(Capacity, routes: 2, ThreadPoolDispatchScheduler.Shared, dropsOldest: false);

    private RouteBudget Quiet => _budget.Parts[0];

    private RouteBudget Busy => _budget.Parts[1];

    [Fact]
    public async Task Other_routes_pass_it_with_at_most_its_own_bytes()
    {
        Fill(Busy);
        var waiting = Quiet.ReserveAsync(Large, CancellationToken.None).AsTask();

        var passed = SettleAndTake(Large + Large - Own);

        await waiting.WithinDeadline();
        Assert.Equal(Large, passed);
        Assert.Equal(Own + Shared + Own, _budget.Reserved);
    }

    [Fact]
    public async Task What_another_route_has_alone_is_taken_beside_it()
    {
        Fill(Busy);
        var waiting = Quiet.ReserveAsync(Large, CancellationToken.None).AsTask();
        SettleAndTake(Large);
        Assert.False(waiting.IsCompleted);

        Busy.Release(1_000);
        Assert.False(Busy.TryReserve(1));
        var both = _budget.Parts[2];
        Assert.True(both.TryReserve(Own));
        Assert.False(both.TryReserve(1));
        Busy.Release(Large);

        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task What_was_taken_and_not_used_passes_no_one()
    {
        Fill(Busy);
        var waiting = Quiet.ReserveAsync(Large, CancellationToken.None).AsTask();
        Busy.ReleaseUnused(4_000);

        for (var attempt = 0; attempt < 100; attempt++)
        {
            Assert.True(Busy.TryReserve(4_000));
            Busy.ReleaseUnused(4_000);
        }

        Assert.False(waiting.IsCompleted);
        Busy.Release(1_000);
        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task Parts_have_turns_for_one_writer_each()
    {
        Fill(Busy);
        Task[] quiet = [.. Enumerable.Range(0, 2).Select(_ => Quiet.ReserveAsync(Large, CancellationToken.None).AsTask())];
        var both = _budget.Parts[2].ReserveAsync(Large, CancellationToken.None).AsTask();

        Busy.Release(Large - Own);
        await quiet[0].WithinDeadline();
        Busy.Release(Large - Own);
        await both.WithinDeadline();

        Assert.False(quiet[1].IsCompleted);
        Busy.Release(Large);
        await quiet[1].WithinDeadline();
    }

    [Fact]
    public async Task A_cancelled_wait_ends_its_turn()
    {
        Fill(Busy);
        using var cancellation = new CancellationTokenSource();
        var cancelled = Quiet.ReserveAsync(Large, cancellation.Token).AsTask();
        SettleAndTake(Large);

        await cancellation.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled.WithinDeadline());
        Assert.Equal(1_000, SettleAndTake(1_000));
    }

    [Fact]
    public async Task A_write_that_only_its_own_route_can_make_place_for_holds_up_no_other_route()
    {
        Fill(Quiet);
        var waiting = Quiet.ReserveAsync(Large, CancellationToken.None).AsTask();
        Quiet.Release(100);

        for (var round = 0; round < 1_000; round++)
        {
            Assert.True(Busy.TryReserve(Own + 100));
            Busy.Release(Own + 100);
        }

        Assert.False(waiting.IsCompleted);
        Quiet.Release(Large);
        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task While_it_waits_scopes_of_other_routes_hold_nothing_back()
    {
        var (here, there) = (new CollectingTransport(sendsWithoutBlocking: false), new CollectingTransport(sendsWithoutBlocking: false));
        var slow = new ScriptedTransport(here);
        var stalled = slow.Stall();
        await using var buffer = Buffer(slow, there);
        buffer.Write(Some.Group(), new byte[Own + Shared - 100]);
        await stalled.EnteredAsync();
        var waiting = buffer.WriteAsync(Some.Connection(Node), new byte[Large]).AsTask();
        var scoped = Some.Connection(Node + 1);

        await using (buffer.BeginBufferingScope(scoped))
        {
            buffer.Write(scoped, "line 0");
            await Until.TrueAsync(() => there.MessagesFor(scoped).Count == 1);
        }

        Assert.False(waiting.IsCompleted);
        stalled.Release();
        await waiting.WithinDeadline();
    }

    [Fact]
    public async Task Writers_of_another_route_without_end_do_not_starve_it()
    {
        var (here, there) = (new CollectingTransport(sendsWithoutBlocking: false), new CollectingTransport(sendsWithoutBlocking: false));
        await using var buffer = Buffer(here, there);
        using var ended = new CancellationTokenSource();
        Task[] writers = [.. Enumerable.Range(0, 8).Select(_ => Task.Run(() => WriteWithoutEndAsync(buffer, ended.Token)))];

        for (var write = 0; write < 100; write++)
            await buffer.WriteAsync(Some.Connection(Node), new byte[Large]).WithinDeadline();

        await ended.CancelAsync();
        await Task.WhenAll(writers).WithinDeadline();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(100, here.MessageCount);
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
    }

    private static void Fill(RouteBudget part) => Assert.True(part.TryReserve(Own + Shared));

    // The busy route settles so many bytes, and takes again whatever it can get.
    private int SettleAndTake(int bytes)
    {
        var taken = 0;
        for (var settled = 0; settled < bytes; settled += 100)
        {
            while (Busy.TryReserve(100))
                taken += 100;
            Busy.Release(100);
        }

        while (Busy.TryReserve(100))
            taken += 100;
        return taken;
    }

    [Theory]
    [InlineData(Capacity / 4)]
    [InlineData(Capacity - 100)]
    public async Task The_largest_message_has_a_place_beside_several_routes(int bytes)
    {
        var transport = new CollectingTransport();
        await using var buffer = Buffer(transport, transport, maxMessageBytes: bytes);

        await buffer.WriteAsync(Some.Connection(Node), new byte[bytes]).AsTask().WithinDeadline();
        await buffer.WriteAsync(Some.Connection(Node + 1), new byte[bytes]).AsTask().WithinDeadline();
        buffer.WriteLatest(Some.Connection(Node), 1, new byte[bytes]);
        await buffer.FlushAsync().AsTask().WithinDeadline();

        Assert.Equal(3, buffer.GetStatistics().AcknowledgedMessages);
    }

    private static OutputBuffer Buffer(IBatchTransport here, IBatchTransport there, int maxMessageBytes = Own + Shared) => new(
        [new OutputRoute(LocalFirstRouter.LocalRoute, here), new OutputRoute(LocalFirstRouter.RemoteRoute, there)],
        new LocalFirstRouter(Node),
        new OutputBufferOptions { Node = Node, MaxBufferedBytes = Capacity, MaxBufferedBytesPerHandle = Capacity, MaxMessageBytes = maxMessageBytes, Overflow = OverflowPolicy.Wait });

    private static async Task WriteWithoutEndAsync(OutputBuffer buffer, CancellationToken ended)
    {
        try
        {
            while (true)
                await buffer.WriteAsync(Some.Connection(Node + 1), new byte[2_000], cancellationToken: ended);
        }
        catch (OperationCanceledException) when (ended.IsCancellationRequested)
        {
        }
    }
}
