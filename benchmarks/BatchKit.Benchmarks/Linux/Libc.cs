using System.Runtime.InteropServices;

namespace BatchKit.Benchmarks.Linux;

/// <summary>The few system calls of the load's processes: .NET's own sockets cost the readers more than the kernel's part of it.</summary>
internal static unsafe partial class Libc
{
    public const int TryAgain = 11;

    private const int DontWait = 0x40;
    private const int TcpLevel = 6;
    private const int QuickAcknowledge = 12;
    private const int NoSignal = 0x4000;
    private const int LowestPriority = 19;

    /// <returns>How much came; zero when nothing is there.</returns>
    /// <exception cref="IOException">The connection ended.</exception>
    public static int Receive(int socket, Span<byte> buffer)
    {
        nint received;
        fixed (byte* first = buffer)
            received = Recv(socket, first, buffer.Length, DontWait);
        if (received > 0)
            return (int)received;
        if (received < 0 && Marshal.GetLastPInvokeError() == TryAgain)
            return 0;
        throw new IOException($"A connection ended: {(received == 0 ? "closed by the server" : Marshal.GetLastPInvokeErrorMessage())}.");
    }

    /// <returns>How much was taken; zero when the socket is full.</returns>
    /// <exception cref="IOException">The connection ended.</exception>
    public static int Send(int socket, ReadOnlySpan<byte> bytes)
    {
        nint sent;
        fixed (byte* first = bytes)
            sent = Send(socket, first, bytes.Length, DontWait | NoSignal);
        if (sent >= 0)
            return (int)sent;
        if (Marshal.GetLastPInvokeError() == TryAgain)
            return 0;
        throw new IOException($"A connection ended: {Marshal.GetLastPInvokeErrorMessage()}.");
    }

    /// <summary>Has the kernel acknowledge what came at once (TCP_QUICKACK), until it thinks otherwise.</summary>
    public static void AcknowledgeAtOnce(int socket)
    {
        var isOn = 1;
        _ = SetOption(socket, TcpLevel, QuickAcknowledge, &isOn, sizeof(int));
    }

    /// <summary>Sleeps for less than a millisecond too, which <see cref="Thread.Sleep(TimeSpan)"/> does not.</summary>
    public static void Sleep(TimeSpan time)
    {
        // A timespec on 64 bits.
        var request = stackalloc long[] { time.Ticks / TimeSpan.TicksPerSecond, (long)TimeSpan.FromTicks(time.Ticks % TimeSpan.TicksPerSecond).TotalNanoseconds };
        _ = NanoSleep(request, null);
    }

    /// <summary>Lets all other processes go before this one.</summary>
    public static void GiveWay() => _ = Nice(LowestPriority);

    [LibraryImport("libc", EntryPoint = "nice")]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial int Nice(int increment);

    [LibraryImport("libc", EntryPoint = "nanosleep")]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial int NanoSleep(long* request, long* left);

    [LibraryImport("libc", EntryPoint = "epoll_create1", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    public static partial int EpollCreate(int flags);

    [LibraryImport("libc", EntryPoint = "epoll_ctl", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    public static partial int EpollControl(int epoll, int operation, int file, byte* change);

    [LibraryImport("libc", EntryPoint = "epoll_wait", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    public static partial int EpollWait(int epoll, byte* events, int count, int milliseconds);

    [LibraryImport("libc", EntryPoint = "close")]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    public static partial int Close(int file);

    [LibraryImport("libc", EntryPoint = "setsockopt", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial int SetOption(int socket, int level, int option, int* value, uint length);

    [LibraryImport("libc", EntryPoint = "recv", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial nint Recv(int socket, byte* buffer, nint length, int flags);

    [LibraryImport("libc", EntryPoint = "send", SetLastError = true)]
    [DefaultDllImportSearchPaths(DllImportSearchPath.SafeDirectories)]
    private static partial nint Send(int socket, byte* bytes, nint length, int flags);
}
