using BatchKit.Mqtt;
using Microsoft.Extensions.DependencyInjection;
using SensorHub.Publishing;
using SensorHub.World;

namespace SensorHub.Measuring;

/// <summary>Reads the counters of all parts.</summary>
internal sealed class HubMeter(
    GameWorld world, TickLoop loop, IOutputBuffer output, [FromKeyedServices("")] MqttTransport transport, ArrivalMeter arrivals, RunClock clock)
{
    public HubSnapshot Take() => new()
    {
        At = clock.Now,
        Written = world.Changes,
        Skipped = loop.Skipped,
        Arrived = arrivals.Arrived,
        Doubled = arrivals.Doubled,
        Output = output.GetStatistics(),
        Mqtt = transport.GetStatistics(),
        Latencies = arrivals.CopyLatencies(),
    };
}
