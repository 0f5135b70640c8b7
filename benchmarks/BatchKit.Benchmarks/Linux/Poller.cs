using System.Runtime.InteropServices;

namespace BatchKit.Benchmarks.Linux;

/// <summary>An epoll: which of many sockets can be read or written.</summary>
internal sealed unsafe class Poller : IDisposable
{
    private const int AddOperation = 1;
    private const int ModifyOperation = 3;
    private const uint Readable = 1;
    private const uint Writable = 4;
    private const int MaxEvents = 512;
    private const int Interrupted = 4;

    // The kernel packs the structure on x64 only.
    private static readonly int DataOffset = RuntimeInformation.ProcessArchitecture == Architecture.X64 ? 4 : 8;
    private static readonly int Stride = DataOffset + sizeof(long);

    private readonly int _epoll = Libc.EpollCreate(flags: 0);
    private readonly byte[] _events = new byte[MaxEvents * Stride];

    /// <summary>Watches a file for what can be read.</summary>
    /// <param name="file">Its descriptor.</param>
    /// <param name="place">What its events are told by.</param>
    public void Add(int file, int place) => Change(AddOperation, file, place, Readable);

    /// <summary>Says whether room to write is waited for too.</summary>
    public void Watch(int file, int place, bool isForRoom) => Change(ModifyOperation, file, place, isForRoom ? Readable | Writable : Readable);

    /// <summary>Waits for events.</summary>
    /// <param name="milliseconds">The longest wait; -1 for no limit.</param>
    /// <returns>How many came.</returns>
    public int Wait(int milliseconds)
    {
        int count;
        fixed (byte* events = _events)
            count = Libc.EpollWait(_epoll, events, MaxEvents, milliseconds);
        if (count < 0 && Marshal.GetLastPInvokeError() != Interrupted)
            throw new IOException($"epoll_wait failed: {Marshal.GetLastPInvokeErrorMessage()}.");
        return Math.Max(count, 0);
    }

    /// <summary>Whose an event is.</summary>
    public int PlaceOf(int index) => (int)BitConverter.ToInt64(_events, (index * Stride) + DataOffset);

    public void Dispose() => _ = Libc.Close(_epoll);

    private void Change(int operation, int file, int place, uint events)
    {
        var change = stackalloc byte[Stride];
        *(uint*)change = events;
        *(long*)(change + DataOffset) = place;
        if (Libc.EpollControl(_epoll, operation, file, change) != 0)
            throw new IOException($"epoll_ctl failed: {Marshal.GetLastPInvokeErrorMessage()}.");
    }
}
