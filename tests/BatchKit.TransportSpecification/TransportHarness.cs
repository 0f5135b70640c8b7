using BatchKit.Transports;

namespace BatchKit.TransportSpecification;

/// <summary>A transport and its receiver, connected and receiving, with a topology of their own.</summary>
public abstract class TransportHarness : IAsyncDisposable
{
    /// <summary>The transport under test.</summary>
    public abstract IBatchTransport Transport { get; }

    /// <summary>Disposes the transport alone.</summary>
    public abstract ValueTask DisposeTransportAsync();

    /// <summary>Disposes everything that was made; the transport may be disposed already.</summary>
    public abstract ValueTask DisposeAsync();
}
