using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>Code that docs/your-own-bus.md shows, over a bus of one line: publishing is receiving.</summary>
internal sealed class OneLineBus
{
    private FrameReceiver? _receiver;

    public void Add(IServiceCollection services)
    {
        services.AddBatchKit(options => options.Node = 1)
            .UseFrameTransport(provider => (frame, cancellationToken) => PublishAsync(frame.Destination, frame.Bytes, cancellationToken))
            .AddFrameReceiver(provider => provider.GetRequiredService<MySockets>());
    }

    public void Connect(FrameReceiver receiver) => _receiver = receiver;

    public (FrameTransport Transport, FrameReceiver Receiver) Create(IBatchTransport next)
    {
        var transport = new FrameTransport((frame, cancellationToken) => PublishAsync(frame.Destination, frame.Bytes, cancellationToken), new FrameTransportOptions { BusName = "NATS" });
        var receiver = new FrameReceiver(new BatchReceiver(next));
        return (transport, receiver);
    }

    private ValueTask PublishAsync(FrameDestination destination, ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken) =>
        destination.IsAll || destination.Node == 1 ? _receiver!.ReceiveAsync(bytes, cancellationToken) : throw new FrameRefusedException($"There is no {destination}.");
}
