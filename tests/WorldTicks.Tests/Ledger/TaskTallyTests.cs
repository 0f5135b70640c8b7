using WorldTicks.Ledger;

namespace WorldTicks.Tests.Ledger;

public sealed class TaskTallyTests
{
    private readonly TaskTally _tally = new();

    [Fact]
    public void A_task_that_was_done_twice_counts_once_and_is_doubled()
    {
        Take(number: 1);
        Take(number: 2);
        Take(number: 1, attempt: 2);

        Assert.Equal(2, _tally.Done);
        Assert.Equal(1, _tally.Doubled);
        Assert.Equal(1, _tally.Retaken);
    }

    [Fact]
    public void Many_tasks_are_told_apart()
    {
        for (var number = 1; number <= 200_000; number++)
            Take(number);
        for (var number = 199_901; number <= 200_000; number++)
            Take(number);

        Assert.Equal(200_000, _tally.Done);
        Assert.Equal(100, _tally.Doubled);
    }

    [Fact]
    public void A_step_of_a_region_that_comes_after_a_later_one_is_out_of_order()
    {
        Take(number: 1, region: 1, step: 1);
        Take(number: 2, region: 2, step: 7);
        Take(number: 3, region: 1, step: 3);
        Take(number: 4, region: 1, step: 2);
        Take(number: 5, region: 1, step: 4);

        Assert.Equal(1, _tally.OutOfOrder);
    }

    [Fact]
    public void A_step_that_is_done_again_is_doubled_and_not_out_of_order()
    {
        Take(number: 1, region: 1, step: 1);
        Take(number: 2, region: 1, step: 2);
        Take(number: 1, region: 1, step: 1, attempt: 2);

        Assert.Equal(0, _tally.OutOfOrder);
        Assert.Equal(1, _tally.Doubled);
    }

    [Fact]
    public void Each_worker_has_its_own_count()
    {
        Take(number: 1, worker: "Ana");
        Take(number: 2, worker: "Bob");
        Take(number: 3, attempt: 2, worker: "Bob");

        Assert.Equal(new WorkerTally(1, 0), _tally.CopyWorkers()["Ana"]);
        Assert.Equal(new WorkerTally(2, 1), _tally.CopyWorkers()["Bob"]);
    }

    private void Take(long number, int region = 0, long step = 0, int attempt = 1, string worker = "Ana") =>
        _tally.Take(new ReportRow(Guid.NewGuid(), number, region, step, attempt, Microseconds: 1000, worker));
}
