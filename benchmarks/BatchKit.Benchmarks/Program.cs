using BatchKit.Benchmarks;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BenchmarkDotNet.Running;

try
{
    switch (args)
    {
        case ["gate", .. var arguments]:
            return GateCommand.Run(arguments);
        case ["dry"]:
            return DryCommand.Run();
        default:
            BenchmarkSwitcher.FromTypes(Catalog.Classes).Run(args, RunConfiguration.ForArguments());
            return 0;
    }
}
catch (Exception exception) when (exception is InvalidOperationException or ArgumentException)
{
    Console.Error.WriteLine(exception.Message);
    return 1;
}
finally
{
    await Broker.StopAsync();
}
