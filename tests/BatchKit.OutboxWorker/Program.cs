using BatchKit.OutboxWorker;
using BatchKit.TestServers.OutboxWorker;

return await WorkerProgram.RunAsync(OutboxWorkerSettings.Parse(args));
