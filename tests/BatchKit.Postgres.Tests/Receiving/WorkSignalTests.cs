using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class WorkSignalTests
{
    private readonly WorkSignal _signal = new();

    [Fact]
    public async Task The_worker_that_went_idle_last_is_woken_first_and_each_wake_wakes_one()
    {
        var waits = new[] { _signal.WaitAsync(CancellationToken.None), _signal.WaitAsync(CancellationToken.None), _signal.WaitAsync(CancellationToken.None) };

        _signal.Wake();
        Assert.True(await waits[2].WithinDeadline());
        _signal.Wake();
        Assert.True(await waits[1].WithinDeadline());

        Assert.False(waits[0].IsCompleted);
    }

    [Fact]
    public async Task Wakes_that_nobody_waits_for_are_remembered_as_one()
    {
        _signal.Wake();
        _signal.Wake();

        Assert.True(await _signal.WaitAsync(CancellationToken.None).WithinDeadline());
        Assert.False(_signal.WaitAsync(CancellationToken.None).IsCompleted);
    }

    [Fact]
    public async Task At_a_stop_all_hear_that_there_is_no_more_work_and_take_no_wake_along()
    {
        using var stopping = new CancellationTokenSource();
        var stays = _signal.WaitAsync(CancellationToken.None);
        var leaves = _signal.WaitAsync(stopping.Token);

        await stopping.CancelAsync();
        Assert.False(await leaves.WithinDeadline());
        Assert.False(await LeaveAtOnceAsync(stopping.Token));
        _signal.Wake();

        Assert.True(await stays.WithinDeadline());
    }

    [Fact]
    public async Task No_wake_is_lost_between_workers_that_come_and_go()
    {
        const int Rounds = 20_000;
        var woken = 0;
        var works = Enumerable.Range(0, 4).Select(_ => Task.Run(async () =>
        {
            while (await _signal.WaitAsync(CancellationToken.None) && Interlocked.Increment(ref woken) < Rounds)
                _signal.Wake();
            // The others end too.
            _signal.Wake();
        })).ToArray();

        _signal.Wake();
        await Task.WhenAll(works).WithinDeadline();

        Assert.InRange(woken, Rounds, Rounds + works.Length);
    }

    private Task<bool> LeaveAtOnceAsync(CancellationToken stopping) => _signal.WaitAsync(stopping).WithinDeadline();
}
