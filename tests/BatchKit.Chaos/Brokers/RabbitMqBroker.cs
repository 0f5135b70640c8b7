using System.Globalization;
using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Chaos.Brokers;

/// <summary>RabbitMQ with durable classic queues. Its full disk is the alarm that it raises below its limit.</summary>
internal sealed class RabbitMqBroker(RabbitMqServer server, string transport) : ChaosBroker
{
    public override string Transport => transport;

    public override Guarantee Guarantee { get; } = new(transport)
    {
        // A frame that a broker rejects as it ends while it confirms a later one is reported.
        Failing = new HashSet<FaultKind> { FaultKind.KillBroker, FaultKind.StopBroker },
    };

    public override IReadOnlyList<FaultKind> Faults => [.. NodeFaults, FaultKind.KillBroker, FaultKind.StopBroker, FaultKind.FreezeBroker, FaultKind.FillDisk];

    public override IReadOnlyList<NodePlan> Plans => GameAndGateways;

    public override string Host => server.Host;

    public override int Port => server.Port;

    public static async Task<ChaosBroker> CreateAsync(string transport)
    {
        RequiredServer.SkipWhen(RabbitMqServer.WhyNotInstalled);
        return new RabbitMqBroker(await RabbitMqServer.StartOwnAsync(), transport);
    }

    public override string AddressAt(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");

    // A queue that was declared just before a kill is gone afterwards, which is a known limit of the broker.
    public override Task PrepareAsync(string prefix) => server.SyncDeclarationsAsync();

    public override Task KillAsync() => server.KillAsync();

    public override Task StopAsync() => server.StopAsync();

    public override Task StartAsync() => server.StartAsync();

    public override void Freeze() => server.Freeze();

    public override void Thaw() => server.Thaw();

    public override Task FillDiskAsync() => server.SetDiskAlarmAsync(isOn: true);

    public override Task FreeDiskAsync() => server.SetDiskAlarmAsync(isOn: false);

    public override ValueTask DisposeAsync() => server.DisposeAsync();
}
