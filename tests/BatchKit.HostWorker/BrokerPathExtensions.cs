using System.Security.Cryptography;
using System.Text;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Nats;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.TestServers.HostWorker;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Npgsql;

namespace BatchKit.HostWorker;

/// <summary>Adds a transport or a receiver of frames over a broker to a buffer: the same for a test and for the process that it starts.</summary>
public static class BrokerPathExtensions
{
    // A stop is not about what a receiver hands on for so long.
    private static readonly TimeSpan StopTimeout = TimeSpan.FromMilliseconds(200);

    // A server sets the space of its streams aside.
    private const long NatsStreamBytes = 64 * 1024 * 1024;

    /// <summary>Sends frames for a node.</summary>
    /// <param name="builder">The buffer.</param>
    /// <param name="path">The broker.</param>
    /// <param name="node">The node that receives; only PostgreSQL, which has a queue for each, needs to know it.</param>
    public static BatchKitBuilder SendTo(this BatchKitBuilder builder, BrokerPath path, int node)
    {
        ArgumentNullException.ThrowIfNull(path);
        AddDataSource(builder, path);
        return path.Transport switch
        {
            BrokerPath.RabbitMq => builder.UseRabbitMq(options => Configure(options, path)),
            BrokerPath.MassTransit => builder.UseMassTransit(options => Configure(options, path)),
            BrokerPath.Mqtt => builder.UseMqtt(options => Configure(options, path)),
            BrokerPath.Nats => builder.UseNats(options => Configure(options, path)),
            _ => builder.UsePostgres(options => (options.Schema, options.FrameQueue) = (path.Name, QueueOf(node))),
        };
    }

    /// <summary>Receives frames for a node.</summary>
    /// <param name="builder">The buffer, which has the node's number.</param>
    /// <param name="path">The broker.</param>
    /// <param name="node">The node.</param>
    /// <param name="next">Returns what gets the batches.</param>
    public static BatchKitBuilder ReceiveFrom(this BatchKitBuilder builder, BrokerPath path, int node, Func<IServiceProvider, IBatchTransport> next)
    {
        ArgumentNullException.ThrowIfNull(path);
        AddDataSource(builder, path);
        return path.Transport switch
        {
            BrokerPath.RabbitMq => builder.ReceiveFromRabbitMq(next, options => Configure(options, path)),
            BrokerPath.MassTransit => builder.ReceiveFromMassTransit(next, options => Configure(options, path)),
            BrokerPath.Nats => builder.ReceiveFromNats(next, options => Configure(options, path)),
            // A session that outlives its receiver keeps what comes meanwhile.
            BrokerPath.Mqtt => builder.ReceiveFromMqtt(next, options =>
            {
                Configure(options, path);
                options.ClientId = $"{Convert.ToHexString(SHA256.HashData(Encoding.UTF8.GetBytes(path.Name)))}-{node}";
            }),
            _ => builder.ReceiveFromPostgres(QueueOf(node), next, options => (options.Schema, options.StopTimeout, options.PollInterval) = (path.Name, StopTimeout, TimeSpan.FromMilliseconds(100))),
        };
    }

    private static string QueueOf(int node) => $"node-{node}";

    private static void AddDataSource(BatchKitBuilder builder, BrokerPath path)
    {
        ArgumentNullException.ThrowIfNull(builder);
        if (path.Transport == BrokerPath.PostgreSql)
            builder.Services.TryAddSingleton(_ => NpgsqlDataSource.Create(path.Address));
    }

    private static void Configure(RabbitMqOptions options, BrokerPath path) =>
        (options.ConnectionString, options.Prefix, options.StopTimeout, options.Heartbeat) = (path.Address, path.Name, StopTimeout, path.KeepAlive ?? options.Heartbeat);

    private static void Configure(MassTransitOptions options, BrokerPath path) =>
        (options.RabbitMq, options.Prefix, options.StopTimeout) = (new MassTransitRabbitMqOptions { ConnectionString = path.Address }, path.Name, StopTimeout);

    private static void Configure(MqttOptions options, BrokerPath path) =>
        (options.Server, options.EnvelopePrefix, options.StopTimeout, options.KeepAlive) = (new Uri(path.Address), path.Name, StopTimeout, path.KeepAlive ?? options.KeepAlive);

    private static void Configure(NatsOptions options, BrokerPath path) =>
        (options.Url, options.Prefix, options.StopTimeout, options.MaxStreamBytes) = (path.Address, path.Name, StopTimeout, NatsStreamBytes);
}
