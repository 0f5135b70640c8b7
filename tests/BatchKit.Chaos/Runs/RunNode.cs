using System.Diagnostics;
using System.Globalization;
using BatchKit.Chaos.Brokers;
using BatchKit.Chaos.Histories;
using BatchKit.Chaos.Nodes;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.Chaos.Runs;

/// <summary>One node of a run: its processes, one after the other, and the proxy that all its connections go through.</summary>
internal sealed class RunNode : IAsyncDisposable
{
    private readonly NodePlan _plan;
    private readonly NodeSettings _settings;
    private readonly string _folder;
    private readonly NodeControl _control;
    private readonly List<EndedProcess> _ended = [];
    private ChaosProcess? _process;
    private int _version;
    private long _endBegan;

    public RunNode(NodePlan plan, ChaosBroker broker, string folder, string prefix, int seed)
    {
        _plan = plan;
        _folder = folder;
        Proxy = TcpProxy.Start(broker.Host, broker.Port);
        _settings = new NodeSettings
        {
            Transport = broker.Transport,
            Name = plan.Name,
            Node = plan.Number,
            Version = 0,
            Targets = plan.Targets,
            Address = broker.AddressAt(Proxy.Port),
            Prefix = prefix,
            HistoryPath = "",
            ControlPath = Path.Combine(folder, $"{plan.Name}.control"),
            Seed = seed,
        };
        _control = NodeControl.Open(_settings.ControlPath);
    }

    public string Name => _plan.Name;

    public TcpProxy Proxy { get; }

    /// <summary>The nodes' processes write while this is false.</summary>
    public bool IsPaused
    {
        set => _control.IsPaused = value;
    }

    /// <summary>What its current process wrote to the console, and the last words of those before.</summary>
    public string Output => string.Join(Environment.NewLine, _ended.Select(process => $"-- {Name}.{process.Version}\n{process.Output}").Append($"-- {Name}.{_version}\n{_process?.Output}"));

    public void Jump(TimeSpan by) => _control.Clock += by;

    /// <summary>Starts the next process, and does not wait.</summary>
    public void Start()
    {
        _version++;
        var settings = _settings with { Version = _version, HistoryPath = HistoryPath(_version), Seed = HashCode(_settings.Seed, _version) };
        _process = ChaosProcess.Run(NodeSettings.Command, settings.ToArgument());
    }

    public async Task KillAsync()
    {
        _endBegan = Stopwatch.GetTimestamp();
        Running.Kill();
        await EndAsync(wasKilled: true);
    }

    public async Task StopAsync()
    {
        _endBegan = Stopwatch.GetTimestamp();
        Running.Terminate();
        await EndAsync(wasKilled: false);
    }

    public void Freeze() => Running.Freeze();

    public void Thaw() => Running.Thaw();

    /// <summary>What its current process has recorded so far.</summary>
    public IReadOnlyList<HistoryEvent> ReadCurrent() => File.Exists(HistoryPath(_version)) ? NodeHistory.ReadEvents(HistoryPath(_version)) : [];

    /// <summary>What all its processes have recorded so far.</summary>
    public IEnumerable<NodeHistory> ReadAll()
    {
        foreach (var ended in _ended)
            yield return ended.History;
        if (_process is not null)
            yield return HistoryOf(_version, ReadCurrent());
    }

    public async ValueTask DisposeAsync()
    {
        _process?.Dispose();
        await Proxy.DisposeAsync();
        _control.Dispose();
    }

    private ChaosProcess Running => _process ?? throw new InvalidOperationException($"{Name} does not run.");

    // Of its own for each process, and the same each time.
    private static int HashCode(int seed, int version) => unchecked((seed * 31) + version);

    private async Task EndAsync(bool wasKilled)
    {
        try
        {
            await Running.WaitForExitAsync();
        }
        catch (TimeoutException)
        {
            // It was told to end and hangs: its history has no counters, which the checker complains of.
            Running.Kill();
            await Running.WaitForExitAsync();
        }

        var history = HistoryOf(_version, ReadCurrent()) with { WasKilled = wasKilled, EndBegan = _endBegan };
        _ended.Add(new EndedProcess(_version, history, Running.Output));
        Running.Dispose();
        _process = null;
    }

    private NodeHistory HistoryOf(int version, IReadOnlyList<HistoryEvent> events) => new(Name, _plan.Number, version, _plan.Targets, events);

    private string HistoryPath(int version) => Path.Combine(_folder, string.Create(CultureInfo.InvariantCulture, $"{Name}.{version}.history"));

    private sealed record EndedProcess(int Version, NodeHistory History, string Output);
}
