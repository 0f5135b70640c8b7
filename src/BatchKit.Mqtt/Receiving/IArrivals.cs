using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Gathers the PUBLISHes that one read brought, and hands them on together. One caller at a time.</summary>
internal interface IArrivals
{
    bool IsEmpty { get; }

    /// <summary>Copies what a PUBLISH brought.</summary>
    void Add(in ReceivedPublish publish);

    /// <summary>Completes when the receiver's next hop has everything, in order, or will never take it. Empty afterwards, whatever came of it.</summary>
    ValueTask HandOnAsync(BatchReceiver receiver, CancellationToken cancellationToken);

    /// <summary>Forgets what was gathered.</summary>
    void Clear();
}
