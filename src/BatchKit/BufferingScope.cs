using BatchKit.Batches;
using BatchKit.Buffering;

namespace BatchKit;

/// <summary>Holds output back until it is disposed. See <see cref="IOutputBuffer.BeginBufferingScope(OutputHandle, TimeSpan?, int, string)"/>.</summary>
/// <remarks>
/// A small value over a pooled, versioned token: copy it freely. Dispose scopes on any thread and in any order. The first disposal of a scope or of
/// a copy closes it; later ones do nothing. <c>default</c> is a scope that holds nothing.
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

    /// <summary>Creates a scope for an <see cref="IOutputBuffer"/> of your own, such as a fake in a test.</summary>
    /// <param name="closed">Called once, by the first disposal of the scope or of a copy. What it throws reaches that caller.</param>
    public static BufferingScope Create(Action closed)
    {
        ArgumentNullException.ThrowIfNull(closed);
        return new BufferingScope(new CallbackToken(closed), version: 0);
    }

    /// <summary>Closes the scope. The last scope to close seals and queues what was held. The call never blocks, and throws only what a callback of <see cref="Create"/> throws.</summary>
    /// <exception cref="InvalidOperationException">A <see cref="MessageEncoder{TState}"/> called it. The scope stays open.</exception>
    public void Dispose() => _token?.Close(_version);

    /// <summary>Closes the scope, and completes when the output that this flushes is acknowledged.</summary>
    /// <remarks>
    /// The call reports every lost message that was written in the scope, including those that left before it closed. While another scope holds the
    /// same output, the call completes at once and reports the losses known by then; the last of these scopes to close reports the rest. A nested ambient
    /// scope reports what was lost since it opened, on all handles of its flow. When <see cref="OutputBufferOptions.MaxScopeAge"/> or
    /// <see cref="IOutputBuffer.EndBufferingScope(OutputHandle)"/> has already ended the scope, the call completes when all that is queued for the handle is settled,
    /// and reports what was lost since the scope opened. Inside a transport's send, it completes when the output is queued.
    /// </remarks>
    /// <exception cref="OutputDeliveryException">Messages that were written in the scope were refused, given up or dropped.</exception>
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

    /// <summary>The handle whose scope it is; null for an ambient one and for <c>default</c>.</summary>
    internal HandleBuffer? Handle => (_token as HandleScopeToken)?.Owner;

    /// <summary>True when something else than its owner has ended the handle's scope. Call it under the lock of the handle.</summary>
    internal bool IsEnded => _token is HandleScopeToken { Index: HandleScopeToken.Ended };

    /// <summary>True when its handle was retired, and nothing that was written in it was lost: its end has nothing to do.</summary>
    internal bool IsUnused(BufferSettings settings) =>
        _token is HandleScopeToken { Index: HandleScopeToken.Ended } token && !token.Owner.IsUsableIn(settings) && !token.Owner.Output.Settlement.HasLossBehind(token.Since);

    /// <summary>Closes a handle's scope under the lock of the handle, for the end of an ambient scope.</summary>
    internal FlushWaiter? CloseInto(HandleBuffer handle, OutputRun run, bool waits) =>
        handle.CloseInto((HandleScopeToken)_token!, _version, run, waits);

    /// <summary>Begins a report of what was lost on the handle since the scope opened; it stays open.</summary>
    internal FlushWaiter? BeginReport(HandleBuffer handle) => handle.BeginReport((HandleScopeToken)_token!, _version);

    private sealed class CallbackToken(Action closed) : IScopeToken
    {
        private Action? _closed = closed;

        public void Close(long version) => Interlocked.Exchange(ref _closed, null)?.Invoke();

        public ValueTask CloseAsync(long version)
        {
            Close(version);
            return default;
        }
    }
}

/// <summary>What a <see cref="BufferingScope"/> stands for: one handle's scope, an ambient one, or a fake's.</summary>
internal interface IScopeToken
{
    void Close(long version);

    ValueTask CloseAsync(long version);
}
