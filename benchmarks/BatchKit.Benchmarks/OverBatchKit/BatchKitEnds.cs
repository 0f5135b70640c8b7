using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Dolist;
using BatchKit.MassTransit;
using BatchKit.Nats;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;

namespace BatchKit.Benchmarks.OverBatchKit;

/// <summary>Two hosts as in two processes: one writes to a buffer, the other receives; with BatchKit's own defaults.</summary>
internal sealed class BatchKitEnds : IAsyncDisposable
{
    private const int ReceiverNode = 2;

    private readonly IHost _sender;
    private readonly IHost _receiver;
    private readonly string? _prefix;

    private BatchKitEnds(IHost sender, IHost receiver, Arrival arrival, string? prefix)
    {
        _prefix = prefix;
        _sender = sender;
        _receiver = receiver;
        Arrival = arrival;
        Output = sender.Services.GetRequiredService<OutputBuffer>();
    }

    public Arrival Arrival { get; }

    public OutputBuffer Output { get; }

    /// <summary>A connection on the receiver's node.</summary>
    public OutputHandle Player { get; } = OutputHandle.Connection(ReceiverNode, sequence: 1);

    public static async Task<BatchKitEnds> StartOnRabbitMqAsync(int? prefetch = null)
    {
        var address = BrokerAddress.From(await Broker.GetRabbitMqAsync());
        var prefix = $"benchmark.{Guid.NewGuid():N}";
        return await StartAsync(
            sender => sender.UseRabbitMq(Configure), (receiver, consumer) => receiver.ReceiveFromRabbitMq(_ => consumer, Configure), prefix);

        void Configure(RabbitMqOptions options)
        {
            options.Hosts = [address.Host];
            options.UserName = address.UserName;
            options.Password = address.Password;
            options.VirtualHost = address.VirtualHost;
            options.Prefix = prefix;
            options.Prefetch = prefetch ?? options.Prefetch;
        }
    }

    public static async Task<BatchKitEnds> StartOnMassTransitAsync()
    {
        var address = BrokerAddress.From(await Broker.GetRabbitMqAsync());
        var prefix = $"benchmark.{Guid.NewGuid():N}";
        return await StartAsync(
            sender => sender.UseMassTransit(Configure), (receiver, consumer) => receiver.ReceiveFromMassTransit(_ => consumer, Configure), prefix);

        void Configure(MassTransitOptions options)
        {
            options.Prefix = prefix;
            options.RabbitMq = new MassTransitRabbitMqOptions
            {
                Hosts = [address.Host],
                UserName = address.UserName,
                Password = address.Password,
                VirtualHost = address.VirtualHost,
            };
        }
    }

    public static async Task<BatchKitEnds> StartOnNatsAsync()
    {
        var address = (await Broker.GetNatsAsync()).ToString();
        var prefix = $"benchmark-{Guid.NewGuid():N}";
        return await StartAsync(sender => sender.UseNats(Configure), (receiver, consumer) => receiver.ReceiveFromNats(_ => consumer, Configure));

        void Configure(NatsOptions options) => (options.Url, options.Prefix) = (address, prefix);
    }

    public async ValueTask DisposeAsync()
    {
        await _sender.StopAsync();
        await _receiver.StopAsync();
        _sender.Dispose();
        _receiver.Dispose();
        if (_prefix is not null)
            await DeleteTopologyAsync(_prefix);
    }

    private static async Task<BatchKitEnds> StartAsync(Action<BatchKitBuilder> send, Action<BatchKitBuilder, IBatchTransport> receive, string? prefix = null)
    {
        var arrival = new Arrival();
        var consumer = new ArrivalTransport(arrival);
        var receiver = await StartHostAsync(ReceiverNode, builder => receive(builder.UseLocal(_ => consumer), consumer));
        var sender = await StartHostAsync(node: 1, send);
        return new BatchKitEnds(sender, receiver, arrival, prefix);
    }

    private static async Task<IHost> StartHostAsync(int node, Action<BatchKitBuilder> configure)
    {
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        builder.Logging.SetMinimumLevel(LogLevel.Warning);
        configure(builder.Services.AddBatchKit(options => options.Node = node));
        var host = builder.Build();
        await host.StartAsync();
        await WaitUntilHealthyAsync(host);
        return host;
    }

    // A host starts while its broker is down, so that it has started does not say that its queue is there.
    private static async Task WaitUntilHealthyAsync(IHost host)
    {
        var checks = host.Services.GetRequiredService<HealthCheckService>();
        using var deadline = new CancellationTokenSource(TimeSpan.FromSeconds(30));
        while ((await checks.CheckHealthAsync(deadline.Token)).Status != HealthStatus.Healthy)
            await Task.Delay(TimeSpan.FromMilliseconds(20), deadline.Token);
    }

    // Exchanges and a queue stay for processes that come back. None has this prefix again, and the broker is the user's.
    private static async Task DeleteTopologyAsync(string prefix)
    {
        await using var connection = await new ConnectionFactory { Uri = await Broker.GetRabbitMqAsync() }.CreateConnectionAsync();
        await using var channel = await connection.CreateChannelAsync();
        var node = $"{prefix}.node.{ReceiverNode}";
        await channel.QueueDeleteAsync(node);
        await channel.ExchangeDeleteAsync(node);
        await channel.ExchangeDeleteAsync($"{prefix}.direct");
    }
}

/// <summary>The consumer behind a receiver.</summary>
internal sealed class ArrivalTransport(Arrival arrival) : IBatchTransport
{
    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
            arrival.Add(batch.Payload.Span);
        return default;
    }
}
