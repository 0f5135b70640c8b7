using Microsoft.Extensions.Hosting;

namespace BatchKit.MassTransit;

/// <summary>Starts a buffer's own bus before anything that uses it, and stops it when all hosted services have stopped: the buffer drains over it.</summary>
internal sealed class BusHostedService(BusOwner owner, MassTransitReceiver? lastReceiver) : IHostedLifecycleService
{
    public Task StartingAsync(CancellationToken cancellationToken)
    {
        owner.Start();
        return Task.CompletedTask;
    }

    public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StoppedAsync(CancellationToken cancellationToken)
    {
        if (lastReceiver is not null)
            await lastReceiver.StopAsync(cancellationToken).ConfigureAwait(false);
        await owner.StopAsync().ConfigureAwait(false);
    }
}
