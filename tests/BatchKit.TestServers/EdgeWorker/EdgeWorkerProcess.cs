using System.Globalization;
using System.Net;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.EdgeWorker;

/// <summary>A telnet server with short limits as a child process, to be frozen. Dispose it: that kills it.</summary>
public sealed class EdgeWorkerProcess : SampleProcess
{
    private EdgeWorkerProcess(TimeSpan limit, int? handles)
        : base("BatchKit.EdgeWorker", [limit.TotalMilliseconds.ToString(CultureInfo.InvariantCulture)], handles is { } most ? ["prlimit", $"--nofile={most}:{most}"] : null)
    {
    }

    /// <summary>Where it listens.</summary>
    public IPEndPoint EndPoint => new(IPAddress.Loopback, (int)ReadCount("port"));

    /// <summary>Starts it and waits until it listens.</summary>
    /// <param name="limit">Its limits of idle and slow clients.</param>
    /// <param name="handles">The most file handles that it may have open; the system's limit when null.</param>
    public static Task<EdgeWorkerProcess> StartAsync(TimeSpan limit, int? handles = null) => WhenUpAsync(new EdgeWorkerProcess(limit, handles), "port ");
}
