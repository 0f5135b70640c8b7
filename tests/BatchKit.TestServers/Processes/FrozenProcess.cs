namespace BatchKit.TestServers.Processes;

/// <summary>Freezes other processes and lets them go on.</summary>
internal static class FrozenProcess
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(10);

    /// <summary>
    /// Sends SIGSTOP and waits until it holds. One thread takes the signal and stops the others; on a busy machine that thread waits for its turn, and the others go on working meanwhile.
    /// </summary>
    public static void Freeze(int processId)
    {
        Signal.Send(processId, Signal.Stop);
        if (!SpinWait.SpinUntil(() => !HasRunningThread(processId), Limit))
            throw new TimeoutException($"Process {processId} runs on {Limit} after SIGSTOP.");
    }

    public static void Thaw(int processId) => Signal.Send(processId, Signal.Continue);

    private static bool HasRunningThread(int processId)
    {
        try
        {
            return Directory.GetDirectories($"/proc/{processId}/task").Any(IsRunning);
        }
        catch (DirectoryNotFoundException)
        {
            return false;
        }
    }

    // proc(5): the state follows the name, which may hold parentheses itself. T is stopped, Z and X have ended.
    private static bool IsRunning(string threadFolder)
    {
        try
        {
            var stat = File.ReadAllText(Path.Combine(threadFolder, "stat"));
            return !"TZX".Contains(stat[stat.LastIndexOf(')') + 2]);
        }
        catch (Exception exception) when (exception is IOException)
        {
            // It ended while it was looked at.
            return false;
        }
    }
}
