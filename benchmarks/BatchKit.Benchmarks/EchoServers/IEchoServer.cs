namespace BatchKit.Benchmarks.EchoServers;

/// <summary>One way to send each record back to who sent it.</summary>
internal interface IEchoServer : IAsyncDisposable
{
    /// <returns>The port.</returns>
    Task<int> StartAsync();
}
