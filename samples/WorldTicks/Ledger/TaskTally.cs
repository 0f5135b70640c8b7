using System.Collections;

namespace WorldTicks.Ledger;

/// <summary>Counts one world's reports: which tasks were done, how often, and in which order. Not thread-safe.</summary>
internal sealed class TaskTally
{
    private const int FirstSize = 64 * 1024;

    private readonly BitArray _done = new(FirstSize);
    private readonly Dictionary<int, long> _steps = [];
    private readonly Dictionary<string, WorkerTally> _workers = new(StringComparer.Ordinal);
    private readonly LatencyHistogram _latencies = new();

    /// <summary>The number of tasks that were done, each counted once.</summary>
    public long Done { get; private set; }

    /// <summary>The number of times that a task was done again.</summary>
    public long Doubled { get; private set; }

    /// <summary>The number of tasks that another worker did, because the claim of the first worker had ended.</summary>
    public long Retaken { get; private set; }

    /// <summary>The number of steps of a region's weather that were run after a later step.</summary>
    public long OutOfOrder { get; private set; }

    public IReadOnlyDictionary<string, WorkerTally> CopyWorkers() => new Dictionary<string, WorkerTally>(_workers, StringComparer.Ordinal);

    public long[] CopyLatencies() => _latencies.Copy();

    public void Take(ReportRow report)
    {
        var worker = _workers.GetValueOrDefault(report.Worker);
        var isFirst = MarkDone(report.Number);
        // Tasks that fail are never done. So a second attempt that succeeds means that the first was interrupted.
        var isRetaken = report.Attempt > 1;
        _workers[report.Worker] = new WorkerTally(worker.Done + 1, worker.Retaken + (isRetaken ? 1 : 0));
        Retaken += isRetaken ? 1 : 0;
        if (report.Microseconds is { } waited)
            _latencies.Record(waited);
        if (!isFirst)
        {
            Doubled++;
            return;
        }

        Done++;
        if (report.Region > 0)
            TakeStep(report.Region, report.Step);
    }

    private void TakeStep(int region, long step)
    {
        if (step < _steps.GetValueOrDefault(region))
            OutOfOrder++;
        else
            _steps[region] = step;
    }

    private bool MarkDone(long number)
    {
        var index = checked((int)number);
        if (index >= _done.Length)
            _done.Length = Math.Max(index + 1, _done.Length * 2);
        if (_done[index])
            return false;
        _done[index] = true;
        return true;
    }
}
