using BatchKit.HostWorker;
using BatchKit.TestServers.HostWorker;

return args is [GatewaySettings.Command, var gateway]
    ? await GatewayProgram.RunAsync(GatewaySettings.Parse(gateway))
    : await WorkerProgram.RunAsync(HostWorkerSettings.Parse(args));
