using System.Diagnostics;
using BatchKit.Chaos.Brokers;
using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Runs;

/// <summary>A run: starts the nodes, makes the faults, lets everything come to rest, ends the nodes normally, and checks what they recorded.</summary>
internal sealed class ChaosRun : IAsyncDisposable
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(250);

    private readonly ChaosBroker _broker;
    private readonly RunNode[] _nodes;
    private readonly FaultMaker _faults;
    private readonly string _prefix = $"chaos{Guid.NewGuid():N}";
    private readonly long _began = Stopwatch.GetTimestamp();

    private ChaosRun(ChaosBroker broker, string folder, int seed)
    {
        _broker = broker;
        Folder = folder;
        _nodes = [.. broker.Plans.Select((plan, place) => new RunNode(plan, broker, folder, _prefix, seed + place))];
        _faults = new FaultMaker(broker, _nodes);
    }

    /// <summary>Where the histories are.</summary>
    public string Folder { get; }

    /// <summary>What the processes wrote to their consoles.</summary>
    public string Output => string.Join(Environment.NewLine, _nodes.Select(node => node.Output));

    /// <summary>Makes a schedule come true, and returns everything that was recorded.</summary>
    public static async Task<RunReport> RunAsync(ChaosBroker broker, int seed, TimeSpan length)
    {
        var schedule = FaultSchedule.Draw(seed, length, broker.Faults, [.. broker.Plans.Select(node => node.Name)]);
        var folder = Directory.CreateTempSubdirectory("batchkit-chaos-").FullName;
        await using var run = new ChaosRun(broker, folder, seed);
        string? unrest = null;
        try
        {
            await run.StartAsync();
            await run._faults.MakeAsync(schedule, length);
            await run.RestAsync();
        }
        catch (TimeoutException exception)
        {
            // What the histories say so far is worth more than that it takes too long.
            unrest = exception.Message;
        }

        await Task.WhenAll(run._nodes.Select(node => node.StopAsync()));
        return new RunReport(broker.Guarantee, seed, length, run.Read(), unrest, run.Output, folder);
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var node in _nodes)
            await node.DisposeAsync();
    }

    private RunHistory Read() => new(_began, [.. _nodes.SelectMany(node => node.ReadAll())], _faults.Made);

    private async Task StartAsync()
    {
        foreach (var node in _nodes)
        {
            node.IsPaused = true;
            node.Start();
        }

        await WaitForAllAsync<Started>(_began, "has not started");
        await _broker.PrepareAsync(_prefix);
        foreach (var node in _nodes)
            node.IsPaused = false;
    }

    // All faults are healed: each process settles what it wrote, and all that was acknowledged arrives.
    private async Task RestAsync()
    {
        var paused = Stopwatch.GetTimestamp();
        foreach (var node in _nodes)
            node.IsPaused = true;
        await WaitForAllAsync<Quiet>(paused, "still has unsettled messages");
        var (last, since) = (-1, Stopwatch.GetTimestamp());
        while (new HistoryChecker(_broker.Guarantee, Read()).Missing.Count is var missing && missing > 0)
        {
            if (missing != last)
                (last, since) = (missing, Stopwatch.GetTimestamp());
            if (Stopwatch.GetElapsedTime(since) > Deadline.Time)
                throw new TimeoutException($"{missing} acknowledged messages have not arrived, and for {Deadline.Time} no further one did.");
            await Task.Delay(Pause);
        }

        string? rest = null;
        await Until.TrueAsync(async () => (rest = await _broker.FindRestAsync()) is null, () => Task.FromResult(0L), $"the broker holds {rest}");
    }

    private async Task WaitForAllAsync<TEvent>(long since, string complaint)
        where TEvent : HistoryEvent
    {
        foreach (var node in _nodes)
        {
            var began = Stopwatch.GetTimestamp();
            while (!node.ReadCurrent().OfType<TEvent>().Any(each => each.Time >= since))
            {
                if (Stopwatch.GetElapsedTime(began) > Deadline.Time)
                    throw new TimeoutException($"{node.Name} {complaint} after {Deadline.Time}.");
                await Task.Delay(Pause);
            }
        }
    }
}
