using Microsoft.Extensions.Hosting;

namespace WorldTicks.Hosting;

/// <summary>A run from the host's start to its stop.</summary>
internal interface ITicksRun
{
    /// <summary>Runs until it is stopped or its time has passed, and stops the host.</summary>
    /// <returns>The exit code.</returns>
    Task<int> RunAsync(IHost host);
}
