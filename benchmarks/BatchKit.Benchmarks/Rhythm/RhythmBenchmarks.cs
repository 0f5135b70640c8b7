using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.TestServers;
using BatchKit.TestServers.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>How many tasks of 100 bytes a second go into a queue in PostgreSQL and out of it, how late is one, and what does an idle worker cost?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: a run needs a table that was filled, and empties it.</remarks>
internal sealed class RhythmBenchmarks : ISuiteRunner
{
    private const string OwnDisk = "own";
    private const string SlowerDisk = "slower";

    private static readonly int[] Paces = [100, 2000];
    private static readonly string[] Counted = ["Drain100", "DrainOrdered", "DeleteReturning100"];

    private readonly List<RateRow> _rates = [];
    private readonly List<LatencyRow> _latencies = [];
    private readonly List<IdleRow> _idle = [];
    private readonly List<BuffersRow> _buffers = [];
    private readonly List<IdleQueuesRow> _idleQueues = [];
    private readonly List<string[]> _disks = [];
    private AdviceTables? _advice;

    /// <summary>Why nothing of it can run here; null when it can.</summary>
    public static string? WhyUnfit => Machine.WhyUnfit ?? PostgresServer.WhyNotInstalled;

    /// <summary>Each row once and briefly, on this disk only, to see that everything works.</summary>
    public bool IsShort { get; init; }

    /// <summary>Only one server, without its peer, a slower disk and what an idle worker costs.</summary>
    public bool IsOneServer { get; init; }

    /// <summary>The database of that server; null for one that is started here.</summary>
    public string? ConnectionString { get; init; }

    /// <summary>How many tasks a run has; null for what each row has of its own.</summary>
    public int? Tasks { get; init; }

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        if ((ConnectionString is null ? WhyUnfit : Machine.WhyUnfit) is { } reason)
            throw new InvalidOperationException(reason);
        return MeasureAsync(suite, everything).GetAwaiter().GetResult();
    }

    private async Task<SuiteReadings> MeasureAsync(GateSuite suite, bool everything)
    {
        var readings = new SuiteReadings(WriteTables);
        GraphileProgram? peer = null;
        var whyNoPeer = IsOneServer ? "it would make tables of its own" : GraphileProgram.Install(out peer);
        using var program = peer;
        var plans = RatePlans.Make(peer, whyNoPeer).Select(plan => IsShort ? plan.Shorten() : Tasks is null ? plan : plan with { Tasks = Tasks })
            .Where(plan => Tasks is null || plan.Group != RateGroup.EndToEnd).ToArray();
        RefuseUnknown(suite, plans);
        foreach (var plan in plans.Where(plan => plan.WhyMissing is not null))
            Leave(readings, plan);
        using var slow = new SlowDisk();
        var stages = new List<RhythmStage>();
        try
        {
            stages.Add(await (ConnectionString is null ? RhythmStage.StartAsync(OwnDisk, new PostgresServerOptions()) : RhythmStage.ConnectAsync(OwnDisk, ConnectionString)));
            if (everything && !IsShort && !IsOneServer)
                await AddSlowerAsync(slow, stages);
            // What a row has begun may take minutes: at Ctrl-C it is left to itself.
            await MeasureStagesAsync(suite, everything, plans, stages, readings).WaitAsync(Interruption.Token);
        }
        finally
        {
            foreach (var stage in stages)
                await stage.DisposeAsync();
        }

        if (!IsOneServer)
            await MeasureCountsAsync(suite, plans, readings);
        return readings;
    }

    private static TimeSpan Iteration(GateSuite suite) => TimeSpan.FromMilliseconds(suite.IterationMilliseconds);

    private static async Task AddSlowerAsync(SlowDisk slow, List<RhythmStage> stages)
    {
        var (stage, whyMissing) = await slow.StartAsync(SlowerDisk);
        if (stage is not null)
            stages.Add(stage);
        else
            Console.Error.WriteLine($"left out the slower disk: {whyMissing}");
    }

    private async Task MeasureStagesAsync(GateSuite suite, bool everything, IReadOnlyList<RatePlan> plans, List<RhythmStage> stages, SuiteReadings readings)
    {
        foreach (var stage in stages)
            _disks.Add([stage.Disk, $"{(await SlowDisk.MeasureCommitAsync(stage)).TotalMilliseconds:0.00}"]);
        await MeasureRatesAsync(suite, plans, stages, readings);
        await MeasureLatenciesAsync(suite, stages, readings);
        if (everything && !IsShort && !IsOneServer)
            _advice = await AdviceTables.MeasureAsync(stages, suite.Iterations * Iteration(suite));
    }

    private async Task MeasureRatesAsync(GateSuite suite, IReadOnlyList<RatePlan> plans, List<RhythmStage> stages, SuiteReadings readings)
    {
        var ways = new List<IRhythmWay>();
        try
        {
            foreach (var (stage, plan) in from stage in stages from plan in plans where plan.WhyMissing is null select (stage, plan))
            {
                ways.Add(plan.Make(stage));
                _rates.Add(new RateRow(plan, stage.Disk, ways[^1]));
            }

            Console.Error.WriteLine("warming up");
            foreach (var row in _rates)
            {
                Interruption.Token.ThrowIfCancellationRequested();
                await row.WarmUpAsync(suite.WarmupIterations * Iteration(suite));
            }

            await RunInTurnAsync(suite, _rates, async row => readings.Add(row.Name, await row.MeasureAsync(suite.Iterations * Iteration(suite))));
        }
        finally
        {
            foreach (var way in ways)
                await way.DisposeAsync();
        }
    }

    private async Task MeasureLatenciesAsync(GateSuite suite, List<RhythmStage> stages, SuiteReadings readings)
    {
        Console.Error.WriteLine("one by one");
        _latencies.AddRange(from stage in stages from pace in Paces from way in Enum.GetValues<LatencyWay>() select new LatencyRow(stage, way, pace));
        // A longer look than at a rate: one task in a hundred is the figure.
        await RunInTurnAsync(suite, _latencies, async row => readings.Add(row.Name, await row.MeasureAsync(4 * suite.Iterations * Iteration(suite))));
    }

    private async Task MeasureCountsAsync(GateSuite suite, IEnumerable<RatePlan> plans, SuiteReadings readings)
    {
        Console.Error.WriteLine("counts");
        try
        {
            await using var stage = await RhythmStage.StartAsync(OwnDisk, new PostgresServerOptions { Lines = [IdleRow.Configuration] });
            await stage.ExecuteAsync("create extension pg_stat_statements");
            _idle.AddRange([new IdleRow(stage, isPolling: false), new IdleRow(stage, isPolling: true)]);
            await RunInTurnAsync(suite, _idle, async row => readings.Add(row.Name, await row.MeasureAsync(6 * suite.Iterations * Iteration(suite))));
            _buffers.AddRange(from plan in plans where Counted.Contains(plan.Method) select new BuffersRow(stage, plan));
            await RunInTurnAsync(suite, _buffers, async row => readings.Add(row.Name, await row.MeasureAsync()));
            _idleQueues.Add(new IdleQueuesRow(stage));
            await RunInTurnAsync(suite, _idleQueues, async row => readings.Add(IdleQueuesRow.Name, await row.MeasureAsync()));
        }
        catch (ServerStartException)
        {
            const string Reason = "this PostgreSQL has no pg_stat_statements";
            readings.Leave(IdleRow.NameOf(isPolling: false), Reason);
            readings.Leave(IdleRow.NameOf(isPolling: true), Reason);
            foreach (var method in Counted)
                readings.Leave(BuffersRow.NameOf(method), Reason);
            readings.Leave(IdleQueuesRow.Name, Reason);
        }
    }

    /// <summary>All rows work in turn, so that a noisy moment hits all of them, and the first of a round is another one each time.</summary>
    private static async Task RunInTurnAsync<TRow>(GateSuite suite, List<TRow> rows, Func<TRow, Task> measure)
    {
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            for (var turn = 0; turn < rows.Count; turn++)
            {
                Interruption.Token.ThrowIfCancellationRequested();
                await measure(rows[(round + turn) % rows.Count]);
            }
        }
    }

    private static void Leave(SuiteReadings readings, RatePlan plan)
    {
        Console.Error.WriteLine($"left out {plan.Method}: {plan.WhyMissing}");
        readings.Leave(plan.NameOn(OwnDisk), plan.WhyMissing!);
    }

    private static void RefuseUnknown(GateSuite suite, IReadOnlyList<RatePlan> plans)
    {
        var known = plans.Select(plan => plan.NameOn(OwnDisk)).Concat(Paces.SelectMany(static pace => Enum.GetValues<LatencyWay>().Select(way => LatencyRow.NameOf(way, pace, OwnDisk))))
            .Concat([IdleRow.NameOf(isPolling: false), IdleRow.NameOf(isPolling: true), IdleQueuesRow.Name]).Concat(Counted.Select(BuffersRow.NameOf)).ToHashSet(StringComparer.Ordinal);
        suite.RefuseUnknown(known.Contains);
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        MarkdownTable.Write(writer, "Disks", ["", "a commit by one connection at its shortest, ms"], _disks);
        foreach (var group in _rates.GroupBy(row => (row.Disk, row.Plan.Group)))
            RateTable.Write(writer, group.Key.Group, group.Key.Disk, [.. group]);
        MarkdownTable.Write(writer, "From enqueue to handler, tasks written one by one", LatencyRow.Columns, _latencies.Select(row => row.Describe()));
        if (_idle.Count > 0)
            MarkdownTable.Write(writer, "Idle", IdleRow.Columns, _idle.Select(row => row.Describe()));
        if (_buffers.Count > 0)
            MarkdownTable.Write(writer, "Buffers that the server reads: 10 workers, handlers that do nothing", BuffersRow.Columns, _buffers.Select(row => row.Describe()));
        if (_idleQueues.Count > 0)
            MarkdownTable.Write(writer, "Idle queues", IdleQueuesRow.Columns, _idleQueues.Select(row => row.Describe()));
        _advice?.Write(writer);
    }
}
