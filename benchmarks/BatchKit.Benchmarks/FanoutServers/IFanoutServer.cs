namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>One way to bring a message to many clients.</summary>
internal interface IFanoutServer : IAsyncDisposable
{
    /// <summary>The clients that are there and have joined.</summary>
    int Clients { get; }

    /// <summary>Starts to listen.</summary>
    /// <returns>The port.</returns>
    Task<int> StartAsync();

    /// <summary>Sends, and returns when its caller could go on.</summary>
    void Send(FanoutWorkload workload);
}
