using System.Diagnostics;
using BatchKit.Chaos.Brokers;
using BatchKit.Chaos.Faults;

namespace BatchKit.Chaos.Runs;

/// <summary>Makes the faults of a schedule: those of one target one after the other, those of different targets side by side. Each is healed at its end.</summary>
internal sealed class FaultMaker(ChaosBroker broker, IReadOnlyList<RunNode> nodes)
{
    // Guards what was made.
    private readonly Lock _lock = new();
    private readonly List<MadeFault> _made = [];
    private volatile bool _isBroken;

    public IReadOnlyList<MadeFault> Made
    {
        get
        {
            lock (_lock)
                return [.. _made.OrderBy(fault => fault.Began)];
        }
    }

    /// <summary>Completes when all faults are healed. Those that could not begin in time, because healing those before took longer than planned, are left out.</summary>
    /// <param name="schedule">The faults.</param>
    /// <param name="length">How long faults begin.</param>
    public async Task MakeAsync(IReadOnlyList<Fault> schedule, TimeSpan length)
    {
        var began = Stopwatch.GetTimestamp();
        await Task.WhenAll(schedule.GroupBy(fault => fault.Target).Select(async faults =>
        {
            foreach (var fault in faults)
            {
                if (fault.At - Stopwatch.GetElapsedTime(began) is var pause && pause > TimeSpan.Zero)
                    await Task.Delay(pause);
                if (_isBroken || Stopwatch.GetElapsedTime(began) > length)
                    return;
                var from = Stopwatch.GetTimestamp();
                try
                {
                    await MakeAsync(fault);
                }
                catch
                {
                    // An hour without the faults of one target would not be the hour that was asked for: the others end now.
                    _isBroken = true;
                    throw;
                }

                lock (_lock)
                    _made.Add(new MadeFault(fault, from, Stopwatch.GetTimestamp()));
            }
        }));
    }

    private async Task MakeAsync(Fault fault)
    {
        switch (fault.Kind)
        {
            case FaultKind.KillBroker:
                await broker.KillAsync();
                await Task.Delay(fault.Length);
                await broker.StartAsync();
                break;
            case FaultKind.StopBroker:
                await broker.StopAsync();
                await Task.Delay(fault.Length);
                await broker.StartAsync();
                break;
            case FaultKind.FreezeBroker:
                broker.Freeze();
                await Task.Delay(fault.Length);
                broker.Thaw();
                break;
            case FaultKind.FillDisk:
                await broker.FillDiskAsync();
                await Task.Delay(fault.Length);
                await broker.FreeDiskAsync();
                break;
            default:
                await MakeAsync(fault, nodes.First(node => node.Name == fault.Target));
                break;
        }
    }

    private static async Task MakeAsync(Fault fault, RunNode node)
    {
        switch (fault.Kind)
        {
            case FaultKind.KillNode:
                await node.KillAsync();
                await Task.Delay(fault.Length);
                node.Start();
                break;
            case FaultKind.StopNode:
                await node.StopAsync();
                await Task.Delay(fault.Length);
                node.Start();
                break;
            case FaultKind.FreezeNode:
                node.Freeze();
                await Task.Delay(fault.Length);
                node.Thaw();
                break;
            case FaultKind.JumpClock:
                node.Jump(TimeSpan.FromSeconds(fault.Amount));
                break;
            case FaultKind.ResetConnections:
                node.Proxy.ResetAll();
                break;
            case FaultKind.CutConnection:
                node.Proxy.CutAfter(fault.Amount);
                break;
            case FaultKind.DelayConnections:
                node.Proxy.Stall();
                await Task.Delay(fault.Length);
                node.Proxy.Resume();
                break;
            case FaultKind.SilenceConnections:
                node.Proxy.Silence();
                break;
            default:
                throw new InvalidOperationException($"{fault.Kind} is no fault of a node.");
        }
    }
}
