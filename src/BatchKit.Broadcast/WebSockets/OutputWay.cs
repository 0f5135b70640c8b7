using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Which way a client's output goes: chosen once, by whoever knows first; until then, output waits.</summary>
internal sealed class OutputWay(OutputHandle handle, ILogger logger)
{
    private const int Open = 0;
    private const int Direct = 1;
    private const int Stream = 2;

    private readonly TaskCompletionSource _chosen = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private int _way;

    /// <summary>Completes with the choice.</summary>
    public Task Chosen => _chosen.Task;

    public bool IsOpen => Volatile.Read(ref _way) == Open;

    /// <summary>True when the socket is written to directly.</summary>
    public bool IsDirect => Volatile.Read(ref _way) == Direct;

    public void ChooseDirect()
    {
        if (TryChoose(Direct))
            Log.WritesDirectly(logger, handle);
    }

    public void ChooseStream(string reason)
    {
        if (TryChoose(Stream))
            Log.WritesToStream(logger, handle, reason);
    }

    private bool TryChoose(int way)
    {
        if (Interlocked.CompareExchange(ref _way, way, Open) != Open)
            return false;
        _chosen.TrySetResult();
        return true;
    }
}
