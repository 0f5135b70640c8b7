using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;
using BatchKit.Chaos.Nodes;

namespace BatchKit.Chaos.Brokers;

/// <summary>A node of a run.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Number">Its number.</param>
/// <param name="Targets">What it writes to.</param>
internal sealed record NodePlan(string Name, int Number, IReadOnlyList<Target> Targets);

/// <summary>The broker or database of a run: how it is broken and mended, which nodes use it, and what it promises.</summary>
internal abstract class ChaosBroker : IAsyncDisposable
{
    /// <summary>The faults of nodes and their connections, which every broker's runs have.</summary>
    protected static readonly FaultKind[] NodeFaults =
    [
        FaultKind.KillNode, FaultKind.StopNode, FaultKind.FreezeNode, FaultKind.JumpClock, FaultKind.ResetConnections, FaultKind.CutConnection, FaultKind.DelayConnections, FaultKind.SilenceConnections,
    ];

    /// <summary>A game and two gateways: the game writes for connections of both and for a group, and each gateway writes players' input for the game.</summary>
    protected static readonly NodePlan[] GameAndGateways =
    [
        new("game", 1, [new("ana", [2]), new("ben", [2]), new("eve", [3]), new(NodeHost.Group, [1, 2, 3])]),
        new("gateway-2", 2, [new("input", [1])]),
        new("gateway-3", 3, [new("input", [1])]),
    ];

    /// <summary>What its processes use, as <see cref="NodeSettings.Transport"/> has it.</summary>
    public abstract string Transport { get; }

    public abstract Guarantee Guarantee { get; }

    public abstract IReadOnlyList<FaultKind> Faults { get; }

    public abstract IReadOnlyList<NodePlan> Plans { get; }

    public abstract string Host { get; }

    public abstract int Port { get; }

    /// <summary>How a process finds it behind a proxy on this port of loopback.</summary>
    public abstract string AddressAt(int port);

    /// <summary>Called once when all nodes have started, before the first fault.</summary>
    /// <param name="prefix">The prefix or schema of everything that the run has there.</param>
    public virtual Task PrepareAsync(string prefix) => Task.CompletedTask;

    /// <summary>What is left there after everything has come to rest, and should not be; null when nothing is.</summary>
    public virtual Task<string?> FindRestAsync() => Task.FromResult<string?>(null);

    public abstract Task KillAsync();

    public abstract Task StopAsync();

    public abstract Task StartAsync();

    public abstract void Freeze();

    public abstract void Thaw();

    public abstract Task FillDiskAsync();

    public abstract Task FreeDiskAsync();

    public abstract ValueTask DisposeAsync();
}
