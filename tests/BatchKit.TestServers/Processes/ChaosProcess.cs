namespace BatchKit.TestServers.Processes;

/// <summary>A node of the randomised run as a child process, to be killed and frozen. Dispose it: that kills what has not ended.</summary>
public sealed class ChaosProcess : SampleProcess
{
    private ChaosProcess(string[] arguments)
        : base("BatchKit.Chaos", arguments)
    {
    }

    /// <summary>Starts it, and does not wait.</summary>
    public static ChaosProcess Run(params string[] arguments) => new(arguments);
}
