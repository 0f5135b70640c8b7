using System.Collections;
using WorldTicks.Measuring;

namespace WorldTicks.Ledger;

/// <summary>Counts one world's reports: which tasks were done, how often, and in which order. One thread at a time.</summary>
internal sealed class TaskTally
{
    private const int FirstSize = 64 * 1024;

    private readonly BitArray _done = new(FirstSize);
    private readonly Dictionary<int, long> _steps = [];
    private readonly Dictionary<string, WorkerTally> _workers = new(StringComparer.Ordinal);
    private readonly LatencyHistogram _latencies = new();

    /// <summary>Tasks that were done, each counted once.</summary>
    public long Done { get; private set; }

    /// <summary>How often a task was done that had been done before.</summary>
    public long Doubled { get; private set; }

    /// <summary>How often a task was done by another worker than the one that had it first, because that one's claim had ended.</summary>
    public long Retaken { get; private set; }

    /// <summary>Steps of a region's weather that came after a later one.</summary>
    public long OutOfOrder { get; private set; }

    public IReadOnlyDictionary<string, WorkerTally> CopyWorkers() => new Dictionary<string, WorkerTally>(_workers, StringComparer.Ordinal);

    public long[] CopyLatencies() => _latencies.Copy();

    public void Take(ReportRow report)
    {
        var worker = _workers.GetValueOrDefault(report.Worker);
        var isFirst = MarkDone(report.Number);
        // The tasks that fail are never done, so a second attempt that succeeds is one whose first was cut short.
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
