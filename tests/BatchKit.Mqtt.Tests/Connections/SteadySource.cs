using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Has one packet for every other fill.</summary>
internal sealed class SteadySource : IPacketSource
{
    private bool _hasOne;

    public void Fill(PacketBuffer buffer)
    {
        _hasOne = !_hasOne;
        if (_hasOne && buffer.TryReserve(100, out _))
            buffer.Advance(100);
    }

    public void CompleteWrite()
    {
        // Nothing waits for it.
    }
}
