using System.Runtime.InteropServices;

namespace BatchKit.Benchmarks;

/// <summary>Ctrl-C and SIGTERM: what runs is ended, and with it all that it started.</summary>
internal static class Interruption
{
    private const int Interrupted = 128 + 2;
    private const int Terminated = 128 + 15;

    private static readonly CancellationTokenSource Source = new();
    private static int _exitCode;

    /// <summary>Cancelled at the first of them.</summary>
    public static CancellationToken Token => Source.Token;

    /// <summary>What the program ends with then, as shells count: 128 and the signal's number.</summary>
    public static int ExitCode => Volatile.Read(ref _exitCode);

    /// <summary>Takes the signals. A second one ends the program at once.</summary>
    public static IDisposable[] Watch() =>
    [
        PosixSignalRegistration.Create(PosixSignal.SIGINT, static context => Take(context, Interrupted)),
        PosixSignalRegistration.Create(PosixSignal.SIGTERM, static context => Take(context, Terminated)),
    ];

    private static void Take(PosixSignalContext context, int exitCode)
    {
        context.Cancel = Interlocked.CompareExchange(ref _exitCode, exitCode, 0) == 0;
        if (context.Cancel)
            Source.Cancel();
    }
}
