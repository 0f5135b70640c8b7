using System.Globalization;
using BatchKit.Benchmarks.EchoLoad;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.EdgeLoad;
using BatchKit.Benchmarks.EdgeServers;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.GroupGateways;
using BatchKit.Benchmarks.HubNodes;
using BatchKit.Benchmarks.IdleServers;
using BatchKit.Benchmarks.MqttSink;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.Sink;

namespace BatchKit.Benchmarks;

/// <summary>The parts that this program does in processes of its own, which <see cref="Children.ChildProcess"/> starts. They are not for users, so no help lists them.</summary>
internal static class ChildCommands
{
    /// <returns>The exit code; null when the arguments name no such part.</returns>
    public static async Task<int?> RunAsync(string[] arguments) => arguments switch
    {
        ["sink"] => SinkCommand.Run(),
        ["fanout", var kind, var subscribers] => await FanoutServerCommand.RunAsync(Enum.Parse<FanoutServerKind>(kind), Number(subscribers)),
        ["gateway", var node, var clients, var prefix, var byMembers] => await GatewayCommand.RunAsync(Number(node), Number(clients), prefix, bool.Parse(byMembers)),
        ["hub", var isBatchKit, var node, var redis, var prefix] => await HubNodeCommand.RunAsync(bool.Parse(isBatchKit), Number(node), redis, prefix),
        ["load", var port, var connections] => EchoLoadCommand.Run(Number(port), Number(connections)),
        ["echo", var kind] => await EchoServerCommand.RunAsync(Enum.Parse<EchoServerKind>(kind)),
        ["storm"] => StormCommand.Run(),
        ["attack"] => AttackCommand.Run(),
        ["edge", var kind, var port] => await EdgeServerCommand.RunAsync(Enum.Parse<EdgeServerKind>(kind), Number(port)),
        ["idle", var kind] => await IdleServerCommand.RunAsync(Enum.Parse<IdleServerKind>(kind)),
        ["subscribe", var port, var quality] => MqttSinkCommand.Run(Number(port), Number(quality)),
        ["publish", var way] => await PublishCommand.RunAsync(Enum.Parse<PublishWay>(way)),
        _ => null,
    };

    private static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);
}
