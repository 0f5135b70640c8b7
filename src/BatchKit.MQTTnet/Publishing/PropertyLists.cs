using Microsoft.Extensions.ObjectPool;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>Lists of user properties that go round. One comes back only after the task of its publish has ended: until then the client may encode it.</summary>
internal sealed class PropertyLists
{
    private const int MaxKept = 1024;
    private const int MaxKeptProperties = 64;

    private readonly ObjectPool<List<MqttUserProperty>> _pool = new DefaultObjectPool<List<MqttUserProperty>>(new Policy(), MaxKept);

    public List<MqttUserProperty> Rent() => _pool.Get();

    public void Return(List<MqttUserProperty> list) => _pool.Return(list);

    private sealed class Policy : PooledObjectPolicy<List<MqttUserProperty>>
    {
        public override List<MqttUserProperty> Create() => [];

        public override bool Return(List<MqttUserProperty> obj)
        {
            if (obj.Capacity > MaxKeptProperties)
                return false;
            obj.Clear();
            return true;
        }
    }
}
