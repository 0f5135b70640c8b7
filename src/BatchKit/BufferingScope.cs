using BatchKit.Buffering;

namespace BatchKit;

/// <summary>Holds output back until it is disposed. See <see cref="IOutputBuffer.BeginBufferingScope(OutputHandle, string, int)"/>.</summary>
/// <remarks>
/// A small value over a pooled, versioned token: copy it freely. It is closed once, however often, on whatever thread and in whatever order it or
/// a copy is disposed. <c>default</c> is a scope that holds nothing.
/// </remarks>
public readonly struct BufferingScope : IDisposable, IAsyncDisposable, IEquatable<BufferingScope>
{
    private readonly IScopeToken? _token;
    private readonly long _version;

    internal BufferingScope(IScopeToken token, long version)
    {
        _token = token;
        _version = version;
    }

    /// <summary>Closes the scope. The last one seals and queues what was held; never blocks and never throws.</summary>
    public void Dispose() => _token?.Close(_version);

    /// <summary>Closes the scope and completes when what that flushed is acknowledged.</summary>
    /// <remarks>A nested scope flushes nothing, so it completes at once. From inside a transport's send it completes when queued.</remarks>
    /// <exception cref="OutputDeliveryException">Delivery of some of it was given up.</exception>
    public ValueTask DisposeAsync() => _token?.CloseAsync(_version) ?? default;

    /// <inheritdoc/>
    public bool Equals(BufferingScope other) => ReferenceEquals(_token, other._token) && _version == other._version;

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is BufferingScope other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(_token, _version);

    /// <summary>True when both are copies of one scope.</summary>
    public static bool operator ==(BufferingScope left, BufferingScope right) => left.Equals(right);

    /// <summary>True when they are different scopes.</summary>
    public static bool operator !=(BufferingScope left, BufferingScope right) => !left.Equals(right);
}
