using System.ComponentModel;
using System.Runtime.InteropServices;

namespace BatchKit.TestServers.Processes;

/// <summary>Sends POSIX signals, which <see cref="System.Diagnostics.Process"/> cannot.</summary>
internal static partial class Signal
{
    public const int HangUp = 1;
    public const int Interrupt = 2;
    public const int Kill = 9;
    public const int Terminate = 15;
    public const int Continue = 18;
    public const int Stop = 19;

    private const int NoSuchProcess = 3;

    public static void Send(int processId, int signal)
    {
        if (SendNative(processId, signal) == 0)
            return;
        var error = Marshal.GetLastPInvokeError();
        if (error != NoSuchProcess)
            throw new Win32Exception(error, $"Signal {signal} could not be sent to process {processId}.");
    }

    public static bool IsAlive(int processId) => SendNative(processId, signal: 0) == 0;

    [LibraryImport("libc", EntryPoint = "kill", SetLastError = true)]
    private static partial int SendNative(int processId, int signal);
}
