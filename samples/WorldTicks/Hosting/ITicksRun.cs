using Microsoft.Extensions.Hosting;

namespace WorldTicks.Hosting;

/// <summary>A run from the host's start to its stop.</summary>
internal interface ITicksRun
{
    /// <summary>Runs until someone ends it, stops the host, and says how it went.</summary>
    /// <returns>The exit code.</returns>
    Task<int> RunAsync(IHost host);
}
