using System.Threading.Tasks.Sources;
using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Gives the same bytes again whenever a test says so, on the test's own thread.</summary>
internal sealed class SteppedSource(ReadOnlyMemory<byte> bytes) : IByteSource, IValueTaskSource<int>
{
    private ManualResetValueTaskSourceCore<int> _waiting;
    private bool _isRead;

    public void Step() => _waiting.SetResult(0);

    public ValueTask<int> WaitAsync()
    {
        _waiting.Reset();
        _isRead = false;
        return new ValueTask<int>(this, _waiting.Version);
    }

    public ValueTask<int> ReadAsync(Memory<byte> buffer)
    {
        if (_isRead)
            return ValueTask.FromResult(IByteSource.NothingYet);
        _isRead = true;
        bytes.CopyTo(buffer);
        return ValueTask.FromResult(bytes.Length);
    }

    public int GetResult(short token) => _waiting.GetResult(token);

    public ValueTaskSourceStatus GetStatus(short token) => _waiting.GetStatus(token);

    public void OnCompleted(Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _waiting.OnCompleted(continuation, state, token, flags);
}
