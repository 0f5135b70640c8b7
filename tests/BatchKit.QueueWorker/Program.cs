using BatchKit.QueueWorker;
using BatchKit.TestServers.QueueWorker;

return await WorkerProgram.RunAsync(QueueWorkerSettings.Parse(args));
