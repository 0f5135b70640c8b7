using System.Buffers;
using System.Net.Sockets;

namespace MudServer.Telnet;

/// <summary>Bytes that wait for a connection's socket, up to a limit, and the one writer that sends them.</summary>
internal sealed class SendQueue(Socket socket, int maxBytes) : IDisposable
{
    private readonly Lock _lock = new();
    private readonly SemaphoreSlim _wakeUp = new(0, 1);

    // Guarded by the lock.
    private ArrayBufferWriter<byte> _waiting = new();
    private bool _isCompleted;
    private bool _isSignalled;

    // The writer's own.
    private ArrayBufferWriter<byte> _leaving = new();

    /// <summary>Adds what the action writes.</summary>
    /// <returns>Full, once: what was added may not all be sent, so the connection must go. Completed from then on.</returns>
    public QueueResult TryAdd<TState>(TState state, Action<TState, IBufferWriter<byte>> write)
    {
        lock (_lock)
        {
            if (_isCompleted)
                return QueueResult.Completed;
            write(state, _waiting);
            Signal();
            if (_waiting.WrittenCount <= maxBytes)
                return QueueResult.Added;
            _isCompleted = true;
            return QueueResult.Full;
        }
    }

    /// <summary>Takes no more; the writer ends when the rest is sent.</summary>
    public void Complete()
    {
        lock (_lock)
        {
            _isCompleted = true;
            Signal();
        }
    }

    /// <summary>Sends until the queue is completed and empty, or the socket fails.</summary>
    public async Task RunAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            await _wakeUp.WaitAsync(cancellationToken);
            bool isLast;
            lock (_lock)
            {
                (_waiting, _leaving) = (_leaving, _waiting);
                isLast = _isCompleted;
                _isSignalled = false;
            }

            for (var rest = _leaving.WrittenMemory; !rest.IsEmpty;)
            {
                var sent = await socket.SendAsync(rest, cancellationToken);
                rest = rest[sent..];
            }

            if (isLast)
                return;
            Recycle();
        }
    }

    public void Dispose() => _wakeUp.Dispose();

    private void Signal()
    {
        if (_isSignalled)
            return;
        _isSignalled = true;
        _wakeUp.Release();
    }

    /// <summary>A burst's memory is not kept for a connection that is mostly idle.</summary>
    private void Recycle()
    {
        if (_leaving.Capacity > 64 * 1024)
            _leaving = new ArrayBufferWriter<byte>();
        else
            _leaving.ResetWrittenCount();
    }
}
