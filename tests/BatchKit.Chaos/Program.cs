using BatchKit.Chaos.Nodes;
using Xunit.Runner.InProc.SystemConsole;

return args is [NodeSettings.Command, var settings]
    ? await NodeProgram.RunAsync(NodeSettings.Parse(settings))
    : await ConsoleRunner.Run(args);
