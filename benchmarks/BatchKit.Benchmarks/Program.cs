using System.Globalization;
using BatchKit.Benchmarks;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.EchoLoad;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.EdgeLoad;
using BatchKit.Benchmarks.EdgeServers;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.GroupGateways;
using BatchKit.Benchmarks.IdleServers;
using BatchKit.Benchmarks.MqttSink;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.Publishers;
using BatchKit.Benchmarks.Sink;
using BenchmarkDotNet.Running;

try
{
    switch (args)
    {
        case ["gate", .. var arguments]:
            return GateCommand.Run(arguments);
        case ["dry", .. var suites]:
            return DryCommand.Run(suites);
        case ["figures"]:
            return FiguresCommand.Run(isCheck: false);
        case ["figures", "--check"]:
            return FiguresCommand.Run(isCheck: true);
        case ["inject"]:
            return InjectCommand.Run();
        case ["sink"]:
            return SinkCommand.Run();
        case ["fanout", var kind, var subscribers]:
            return await FanoutServerCommand.RunAsync(Enum.Parse<FanoutServerKind>(kind), int.Parse(subscribers, CultureInfo.InvariantCulture));
        case ["gateway", var node, var clients, var prefix, var byMembers]:
            return await GatewayCommand.RunAsync(int.Parse(node, CultureInfo.InvariantCulture), int.Parse(clients, CultureInfo.InvariantCulture), prefix, bool.Parse(byMembers));
        case ["load", var port, var connections]:
            return EchoLoadCommand.Run(int.Parse(port, CultureInfo.InvariantCulture), int.Parse(connections, CultureInfo.InvariantCulture));
        case ["echo", var kind]:
            return await EchoServerCommand.RunAsync(Enum.Parse<EchoServerKind>(kind));
        case ["storm"]:
            return StormCommand.Run();
        case ["attack"]:
            return AttackCommand.Run();
        case ["edge", var kind, var port]:
            return await EdgeServerCommand.RunAsync(Enum.Parse<EdgeServerKind>(kind), int.Parse(port, CultureInfo.InvariantCulture));
        case ["idle", var kind]:
            return await IdleServerCommand.RunAsync(Enum.Parse<IdleServerKind>(kind));
        case ["subscribe", var port, var quality]:
            return MqttSinkCommand.Run(int.Parse(port, CultureInfo.InvariantCulture), int.Parse(quality, CultureInfo.InvariantCulture));
        case ["publish", var way]:
            return await PublishCommand.RunAsync(Enum.Parse<PublishWay>(way));
        default:
            BenchmarkSwitcher.FromTypes(Catalog.Classes).Run(args, RunConfiguration.ForArguments());
            return 0;
    }
}
catch (Exception exception) when (exception is InvalidOperationException or ArgumentException or IOException)
{
    Console.Error.WriteLine(exception.Message);
    return 1;
}
finally
{
    await Broker.StopAsync();
}
