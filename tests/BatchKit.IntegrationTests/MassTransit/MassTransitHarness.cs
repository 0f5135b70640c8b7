using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A node whose transport sends to its own receiver.</summary>
internal sealed class MassTransitHarness(MassTransitNode node, MassTransitOptions options) : TransportHarness
{
    public override IBatchTransport Transport => node.Transport;

    public override IReadOnlyList<object> Options => [options];

    public static async Task<MassTransitHarness> ConnectAsync(int node, Action<MassTransitOptions> configure, IBatchTransport nextHop, Surroundings surroundings)
    {
        MassTransitOptions? used = null;
        var started = await MassTransitNode.StartReadyAsync(
            node,
            options =>
            {
                configure(options);
                used = options;
            },
            _ => nextHop,
            addServices: services => services.AddSingleton(surroundings.TimeProvider).AddSingleton<ILoggerFactory>(new OwnLoggers(surroundings.LoggerFactory)));
        return new MassTransitHarness(started, used!);
    }

    public override ValueTask DisposeTransportAsync() => node.Transport.DisposeAsync();

    public override ValueTask DisposeAsync() => node.DisposeAsync();

    /// <summary>The rules' loggers for BatchKit's own types; MassTransit's get polite ones, because what it does with hostile ones is its own affair.</summary>
    private sealed class OwnLoggers(ILoggerFactory loggers) : ILoggerFactory
    {
        public ILogger CreateLogger(string categoryName) =>
            categoryName.StartsWith("BatchKit", StringComparison.Ordinal) ? loggers.CreateLogger(categoryName) : NullLogger.Instance;

        public void AddProvider(ILoggerProvider provider)
        {
        }

        public void Dispose()
        {
        }
    }
}
