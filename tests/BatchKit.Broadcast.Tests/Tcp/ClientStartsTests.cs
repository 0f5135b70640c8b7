using System.Collections.Concurrent;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ClientStartsTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly ConcurrentQueue<int> _blocked = new();
    private int _started;

    [Fact]
    public async Task Every_client_is_started_once_also_when_many_are_added_side_by_side()
    {
        const int clients = 100_000, adders = 4;
        var started = new ConcurrentDictionary<int, int>();
        var starts = Create<int>(client => started.AddOrUpdate(client, 1, (_, count) => count + 1));

        await Task.WhenAll(Enumerable.Range(0, adders).Select(adder => Task.Run(() =>
        {
            for (var client = adder; client < clients; client += adders)
                starts.Add(client);
        }))).WithinDeadline();

        await Until.TrueAsync(() => started.Count == clients);
        Assert.All(started.Values, count => Assert.Equal(1, count));
    }

    [Fact]
    public async Task Clients_whose_start_blocks_hold_up_no_others()
    {
        var (gate, started) = (new ManualResetEventSlim(), 0);
        var starts = Create<bool>(blocks =>
        {
            if (blocks)
                gate.Wait();
            else
                Interlocked.Increment(ref started);
        });

        foreach (var blocks in (bool[])[true, true, false, false, false])
            starts.Add(blocks);

        await Until.TrueAsync(() => Volatile.Read(ref started) == 3);
        gate.Set();
    }

    [Fact]
    public async Task When_the_starts_of_all_workers_block_the_others_are_started_soon_and_it_is_noted()
    {
        const int others = 10;
        var gate = AddBlocking(ClientStarts<bool>.MaxWorkers, others, isHeld: false);

        await WhenStartedAsync(others);
        await Until.TrueAsync(() => !_blocked.IsEmpty);

        Assert.All(_blocked, waiting => Assert.InRange(waiting, 1, ClientStarts<bool>.MaxWorkers + others));
        gate.SetResult();
    }

    [Fact]
    public async Task Where_as_many_starts_block_as_begin_after_a_storm_the_others_are_started_soon()
    {
        const int others = 10;
        var gate = AddBlocking(Math.Min(Environment.ProcessorCount, ClientStarts<bool>.MaxWorkers), others, isHeld: true);

        await WhenStartedAsync(others);

        gate.SetResult();
    }

    [Fact]
    public async Task Clients_are_started_when_all_that_wait_are_accepted()
    {
        const int clients = 100;
        var started = 0;
        var starts = Create<int>(_ => Interlocked.Increment(ref started));

        starts.NoteTaking(isTaking: true);
        for (var client = 0; client < clients; client++)
            starts.Add(client);
        var startedBefore = Volatile.Read(ref started);
        starts.NoteTaking(isTaking: false);

        await Until.TrueAsync(() => Volatile.Read(ref started) == clients);
        Assert.Equal(0, startedBefore);
    }

    [Fact]
    public async Task Clients_that_keep_coming_do_not_hold_up_the_first_ones_for_ever()
    {
        const int clients = 20_000;
        var started = 0;
        var starts = Create<int>(_ => Interlocked.Increment(ref started));

        starts.NoteTaking(isTaking: true);
        for (var client = 0; client < clients; client++)
            starts.Add(client);

        await Until.TrueAsync(() => Volatile.Read(ref started) > 0);
        starts.NoteTaking(isTaking: false);
        await Until.TrueAsync(() => Volatile.Read(ref started) == clients);
    }

    [Fact]
    public async Task Joining_costs_the_same_however_many_have_joined()
    {
        await using var transport = new BroadcastTransport();
        JoinAll(transport, "warm-up", 1000);

        var (few, many) = (JoinAll(transport, "few", 1000), JoinAll(transport, "many", 16_000));

        // Tables that double cost some twice as much at most, and a copy of the members for each join would cost sixteen times as much.
        Assert.InRange(many, 0, 4 * few);
    }

    /// <summary>Adds clients whose starts block, and others behind them.</summary>
    /// <returns>Releases those that block.</returns>
    private TaskCompletionSource AddBlocking(int blocking, int others, bool isHeld)
    {
        var gate = new TaskCompletionSource();
        var starts = Create<bool>(blocks =>
        {
            if (blocks)
                gate.Task.Wait();
            else
                Interlocked.Increment(ref _started);
        });

        if (isHeld)
            starts.NoteTaking(isTaking: true);
        for (var client = 0; client < blocking + others; client++)
            starts.Add(client < blocking);
        if (isHeld)
            starts.NoteTaking(isTaking: false);
        return gate;
    }

    private Task WhenStartedAsync(int clients) => Until.TrueAsync(() =>
    {
        _clock.Advance(TimeSpan.FromSeconds(1));
        return Volatile.Read(ref _started) == clients;
    });

    private ClientStarts<TClient> Create<TClient>(Action<TClient> start) => new(start, _clock, _blocked.Enqueue);

    /// <returns>The bytes that a join allocates.</returns>
    private static double JoinAll(BroadcastTransport transport, string group, int count)
    {
        var clients = Enumerable.Range(0, count).Select(_ => new FakeClient(transport)).ToArray();
        var before = GC.GetAllocatedBytesForCurrentThread();
        foreach (var client in clients)
            transport.Groups.Join(client.Connection, group);
        return (GC.GetAllocatedBytesForCurrentThread() - before) / (double)count;
    }
}
