using BatchKit.TestServers.QueueWorker;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>So many worker processes on one queue; who is killed is replaced.</summary>
internal sealed class WorkerFleet : IDisposable
{
    private readonly QueueWorkerSettings _settings;
    private readonly List<QueueWorkerProcess> _workers = [];

    private WorkerFleet(QueueWorkerSettings settings) => _settings = settings;

    public IReadOnlyList<QueueWorkerProcess> Workers => _workers;

    public static WorkerFleet Start(QueueWorkerSettings settings, int workers)
    {
        var fleet = new WorkerFleet(settings);
        for (var worker = 0; worker < workers; worker++)
            fleet._workers.Add(QueueWorkerProcess.Run(settings));
        return fleet;
    }

    /// <summary>Kills (SIGKILL) one of those, and starts another in its place.</summary>
    public async Task ReplaceAsync(QueueWorkerProcess worker)
    {
        worker.Kill();
        await worker.WaitForExitAsync();
        worker.Dispose();
        _workers[_workers.IndexOf(worker)] = QueueWorkerProcess.Run(_settings);
    }

    /// <summary>Ends them all in good order, and adds up what they counted.</summary>
    public async Task<long> StopAsync(string count)
    {
        // One that has not begun has no ear for the signal yet.
        foreach (var worker in _workers)
            await worker.WaitUntilWorkingAsync();
        foreach (var worker in _workers)
            worker.Terminate();
        foreach (var worker in _workers)
            Assert.True(await worker.WaitForExitAsync() == 0, worker.Output);
        return _workers.Sum(worker => worker.ReadCount(count));
    }

    public void Dispose() => _workers.ForEach(worker => worker.Dispose());
}
