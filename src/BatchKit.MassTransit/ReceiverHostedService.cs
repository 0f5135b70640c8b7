using Microsoft.Extensions.Hosting;

namespace BatchKit.MassTransit;

/// <summary>Starts a receiver with the host, and stops it before the buffers drain where the broker keeps what it does not take.</summary>
internal sealed class ReceiverHostedService(MassTransitReceiver receiver, BusOwner owner) : IHostedService
{
    public Task StartAsync(CancellationToken cancellationToken)
    {
        owner.Start();
        return receiver.StartAsync(cancellationToken);
    }

    public Task StopAsync(CancellationToken cancellationToken) =>
        owner.Connection.IsLostAtStop ? Task.CompletedTask : receiver.StopAsync(cancellationToken);
}
