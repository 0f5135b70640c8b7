using BatchKit.Benchmarks.RhythmWays;
using BatchKit.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>All rows that are rates. The first of a group is its baseline, the last its floor.</summary>
internal static class RatePlans
{
    // Ten workers with batches of 100 take a thousand at a time, those with batches of 500 five thousand.
    private const int WorkTasks = 5000;
    private static readonly TimeSpan WorkDuration = TimeSpan.FromMilliseconds(2);

    public static IReadOnlyList<RatePlan> Make(GraphileProgram? peer, string? whyNoPeer) =>
    [
        new(RateGroup.Enqueue, "RowAndNotify", "a row and a NOTIFY each", stage => new RowAndNotify(stage)),
        Enqueue(10),
        Enqueue(100),
        Enqueue(1000),
        new(RateGroup.Enqueue, "Copy1000", "binary COPY of 1000", stage => new CopyRows(stage)),
        new(RateGroup.Drain, "ClaimOne", "claim 1, complete 1", stage => new ClaimAndComplete(stage, 1, TimeSpan.Zero)),
        new(RateGroup.Drain, "ClaimTen", "claim 10, complete 1", stage => new ClaimAndComplete(stage, 10, TimeSpan.Zero)),
        new(RateGroup.Drain, "Graphile", "graphile-worker 0.17, batched", stage => new GraphileWorker(stage, peer!)) { WhyMissing = whyNoPeer },
        Drain("Drain10", "BatchKit, batches of 10", 10),
        Drain("Drain100", "BatchKit, batches of 100", 100),
        Drain("Drain500", "BatchKit, batches of 500", 500),
        Drain("DrainPrefetch", "BatchKit, batches of 100, 2,000 prefetched", 100, prefetch: 2000),
        Drain("DrainOrdered", "BatchKit in order, batches of 100", 100, shards: RhythmStage.Shards),
        new(RateGroup.Drain, "DeleteReturning100", "DELETE … RETURNING of 100", stage => new DeleteReturning(stage, 100)),
        Work("WorkClaimOne", "claim 1, complete 1", stage => new ClaimAndComplete(stage, 1, WorkDuration)),
        Work("Work10", "BatchKit, batches of 10", stage => Receive(stage, "work-10", 10, WorkDuration)),
        Work("Work100", "BatchKit, batches of 100", stage => Receive(stage, "work-100", 100, WorkDuration)),
        Work("Work500", "BatchKit, batches of 500", stage => Receive(stage, "work-500", 500, WorkDuration)),
        Work("WorkOrdered", "BatchKit in order, batches of 10", stage => Receive(stage, "work-ordered", 10, WorkDuration, shards: RhythmStage.Shards)),
        Work("WorkAlone", "the handlers alone, from no queue", _ => new WorkAlone(100, WorkDuration)),
        EndToEnd(200, 5),
        EndToEnd(200, 10),
        EndToEnd(100_000, 5),
        EndToEnd(100_000, 10),
    ];

    private static RatePlan Enqueue(int tasksInScope) =>
        new(RateGroup.Enqueue, $"Scope{tasksInScope}", $"BatchKit, scopes of {tasksInScope}", stage => new ScopedWrites(stage, $"scopes-{tasksInScope}", tasksInScope));

    private static RatePlan Drain(string method, string title, int batchSize, int prefetch = 0, int shards = 0) =>
        new(RateGroup.Drain, method, title, stage => Receive(stage, method, batchSize, TimeSpan.Zero, prefetch, shards));

    private static RatePlan Work(string method, string title, Func<RhythmStage, IRhythmWay> make) => new(RateGroup.Work, method, title, make) { Tasks = WorkTasks };

    private static RatePlan EndToEnd(int tasks, int workers) =>
        new(RateGroup.EndToEnd, $"EndToEnd{tasks}By{workers}", $"{tasks} tasks by {workers} workers", stage => new EndToEnd(stage, workers))
        {
            Tasks = tasks,
            Runs = tasks < WorkTasks ? 9 : 1,
        };

    private static Receivers Receive(RhythmStage stage, string queue, int batchSize, TimeSpan duration, int prefetch = 0, int shards = 0) => new(
        stage, new PostgresQueueReceiverOptions { Queue = queue, Concurrency = Workers.Count, BatchSize = batchSize, Prefetch = prefetch, Shards = shards }, duration);
}
