using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A queue with a window of four, and the far end of its connections.</summary>
public abstract class PublishQueueTest : IDisposable
{
    private protected PublishQueueTest()
    {
        Queue = new PublishQueue(Options, Time);
        Broker = new SimulatedBroker(Queue);
    }

    private protected MqttOptions Options { get; } = new() { PublishWindow = 4 };

    private protected ManualTimeProvider Time { get; } = new();

    private protected ProducerId Producer { get; } = Some.Producer();

    private protected PublishQueue Queue { get; }

    private protected SimulatedBroker Broker { get; }

    public void Dispose()
    {
        Queue.Dispose();
        GC.SuppressFinalize(this);
    }

    private protected static OutputHandle Topic(string name) => OutputHandle.Named(name);

    private protected Task Send(params MessageBatch[] batches) => Queue.SendAsync(batches, CancellationToken.None).AsTask();
}
