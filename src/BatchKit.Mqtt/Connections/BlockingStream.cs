using System.Net.Sockets;

namespace BatchKit.Mqtt.Connections;

/// <summary>A stream over plain TCP whose calls block, so that a read is one system call, and hands nothing over to another thread. Linux only.</summary>
/// <remarks>
/// Its socket is never used asynchronously: after the first such call .NET has the socket not block, and waits for it on a thread of its own (docs/decisions/0138). The asynchronous methods block too, and a token ends none of
/// them; closing the socket does, on Linux only. One thread reads while one writes.
/// </remarks>
internal sealed class BlockingStream : NetworkStream
{
    // The kernel calls a socket writable while a third of its buffer is free (sk_stream_is_writeable). There a write takes its bytes, the rounding up to pages, and the headers.
    private const int SendBufferBytes = 256 * 1024;
    private const int WritablePart = 3;
    private const int BufferBytesPerByte = 2;
    private const int BufferBytesPerWrite = 4096;

    private readonly int _mostCredit;

    // Used by the writer: bytes of the kernel's buffer that were free and are not used yet.
    private long _credit;

    /// <param name="socket">A connected socket that was never used asynchronously. The stream owns it.</param>
    public BlockingStream(Socket socket)
        : base(socket, ownsSocket: true)
    {
        socket.SendBufferSize = SendBufferBytes;
        // What the kernel granted; the administrator limits it (net.core.wmem_max).
        _mostCredit = socket.SendBufferSize / WritablePart;
    }

    /// <summary>True where it can be used.</summary>
    public static bool IsSupported => OperatingSystem.IsLinux();

    /// <summary>Runs blocking calls on a thread of their own. Cancelling the token closes the socket, which ends them.</summary>
    public static async Task<T> RunAsync<T>(Socket socket, Func<Task<T>> calls, CancellationToken cancellationToken)
    {
        var registration = cancellationToken.UnsafeRegister(static state => Close((Socket)state!), socket);
        await using (registration.ConfigureAwait(false))
            return await OwnThread.RunAsync(calls).ConfigureAwait(false);
    }

    /// <summary>Closes a socket and ends the calls under way. What was written still leaves.</summary>
    public static void Close(Socket socket)
    {
        try
        {
            // Otherwise a socket with a call under way is reset.
            socket.Shutdown(SocketShutdown.Both);
        }
        catch (Exception exception) when (StreamFaults.Covers(exception))
        {
            // It is not connected yet, or no more.
        }

        socket.Dispose();
    }

    /// <summary>True when the next write of so many bytes does not block. It may ask the kernel.</summary>
    public bool CanWriteNow(int bytes)
    {
        var cost = ((long)bytes * BufferBytesPerByte) + BufferBytesPerWrite;
        if (_credit < cost && cost <= _mostCredit && Socket.Poll(0, SelectMode.SelectWrite))
            _credit = _mostCredit;
        if (_credit < cost)
            return false;
        _credit -= cost;
        return true;
    }

    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) => new(Read(buffer.Span));

    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        Write(buffer.Span);
        return ValueTask.CompletedTask;
    }
}

/// <summary>Runs calls that block on a thread of their own, so that they take none of the pool's.</summary>
internal static class OwnThread
{
    /// <summary>Blocks until a task has ended, so that what awaits it next goes on on this thread.</summary>
    public static void WaitFor(in ValueTask task)
    {
        if (task.IsCompleted)
            return;
        using var ended = new ManualResetEventSlim();
        task.ConfigureAwait(false).GetAwaiter().UnsafeOnCompleted(ended.Set);
        ended.Wait();
    }

    public static async Task<T> RunAsync<T>(Func<Task<T>> calls)
    {
        var ended = new TaskCompletionSource<Task<T>>(TaskCreationOptions.RunContinuationsAsynchronously);
        var thread = new Thread(() =>
        {
            try
            {
                ended.SetResult(calls());
            }
            catch (Exception exception)
            {
                ended.SetException(exception);
            }
        });
        (thread.IsBackground, thread.Name) = (true, "BatchKit MQTT");
        thread.UnsafeStart();
        var result = await ended.Task.ConfigureAwait(false);
        return await result.ConfigureAwait(false);
    }
}
