namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Where BatchKit's clients come in.</summary>
internal interface IFanoutDoor : IAsyncDisposable
{
    /// <returns>The port.</returns>
    Task<int> StartAsync();
}
