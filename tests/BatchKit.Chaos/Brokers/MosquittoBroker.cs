using System.Globalization;
using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Nodes;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.Chaos.Brokers;

/// <summary>Mosquitto with frames (envelopes). It is not killed: it saves what it acknowledged only when it stops normally, and then promises nothing that could be checked here.</summary>
internal sealed class MosquittoBroker(MosquittoServer server) : ChaosBroker
{
    public override string Transport => NodeHost.Mqtt;

    public override Guarantee Guarantee { get; } = new(NodeHost.Mqtt);

    public override IReadOnlyList<FaultKind> Faults => [.. NodeFaults, FaultKind.StopBroker, FaultKind.FreezeBroker];

    public override IReadOnlyList<NodePlan> Plans => GameAndGateways;

    public override string Host => server.Host;

    public override int Port => server.Port;

    // Without a limit on what it keeps for a client: above its default, 1,000, Mosquitto drops in silence.
    public static async Task<ChaosBroker> CreateAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return new MosquittoBroker(await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { MaxQueued = 0 }));
    }

    public override string AddressAt(int port) => string.Create(CultureInfo.InvariantCulture, $"mqtt://127.0.0.1:{port}");

    public override Task KillAsync() => server.KillAsync();

    public override Task StopAsync() => server.StopAsync();

    public override Task StartAsync() => server.StartAsync();

    public override void Freeze() => server.Freeze();

    public override void Thaw() => server.Thaw();

    public override Task FillDiskAsync() => throw new NotSupportedException();

    public override Task FreeDiskAsync() => throw new NotSupportedException();

    public override ValueTask DisposeAsync() => server.DisposeAsync();
}
