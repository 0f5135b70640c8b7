using BatchKit.Transports;

namespace BatchKit;

/// <summary>A route as it was registered: its transport is found when the buffer is made.</summary>
internal sealed record RouteRegistration(string Name, Func<IServiceProvider, IBatchTransport> Transport, int Partitions);
