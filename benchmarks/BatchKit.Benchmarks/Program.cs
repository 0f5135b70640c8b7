using System.ComponentModel;
using BatchKit.Benchmarks;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.TestServers;
using BenchmarkDotNet.Running;

try
{
    if (await ChildCommands.RunAsync(args) is { } code)
        return code;

    // What begins with an option of BenchmarkDotNet's is for it.
    if (args is [['-', '-', ..] option, ..] && option is not ("--help" or "--version"))
    {
        if (BenchmarkSwitcher.FromTypes(Catalog.Classes).Run(args, RunConfiguration.ForArguments()).Any() || args.Contains("--list") || args.Contains("--info"))
            return ExitCodes.Done;
        // BenchmarkDotNet wrote why to the output. A script would take a gate that stands behind an option for one that holds.
        Console.Error.WriteLine("Nothing was run. A command of batchkit-bench stands in front of its options.");
        return ExitCodes.Usage;
    }

    return await UserCommands.RunAsync(args);
}
catch (Exception exception) when (exception is InvalidOperationException or ArgumentException or IOException or UnauthorizedAccessException or Win32Exception or ServerStartException)
{
    Console.Error.WriteLine(exception.Message);
    return ExitCodes.Failed;
}
finally
{
    await Broker.StopAsync();
}
