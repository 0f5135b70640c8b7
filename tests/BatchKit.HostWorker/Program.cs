using BatchKit.HostWorker;
using BatchKit.TestServers.HostWorker;

return await WorkerProgram.RunAsync(HostWorkerSettings.Parse(args));
