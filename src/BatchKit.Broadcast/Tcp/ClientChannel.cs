using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tcp;

/// <summary>An established way to a client: plain, or encrypted.</summary>
/// <param name="Wire">Writes to it.</param>
/// <param name="Source">Reads it.</param>
/// <param name="Origin">Where it comes from.</param>
internal sealed record ClientChannel(IWire Wire, IByteSource Source, ConnectionOrigin Origin);
