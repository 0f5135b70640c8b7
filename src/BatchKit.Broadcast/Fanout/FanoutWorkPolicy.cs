using BatchKit.Broadcast.Connections;
using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Makes the pool's members.</summary>
internal sealed class FanoutWorkPolicy(SendQueueLimits limits, DeliveryCounters counters) : PooledObjectPolicy<FanoutWork>
{
    public override FanoutWork Create() => new(limits, counters);

    public override bool Return(FanoutWork obj) => true;
}
