using BatchKit.Broadcast.Connections;
using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast.Fanout;

/// <summary>Makes the pool's members.</summary>
internal sealed class FanoutWorkPolicy(DeliveryCounters counters) : PooledObjectPolicy<FanoutWork>
{
    public override FanoutWork Create() => new(counters);

    public override bool Return(FanoutWork obj) => true;
}
