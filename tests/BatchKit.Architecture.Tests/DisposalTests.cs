using System.Net;
using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

namespace BatchKit.Architecture.Tests;

/// <summary>A container may be disposed synchronously, whatever packages registered: it throws for a service that has no <c>Dispose</c>, and leaves the others.</summary>
public sealed class DisposalTests
{
    // No one listens there, so that each connect is refused at once.
    private const string Nowhere = "127.0.0.1:1";

    public static TheoryData<string, Action<BatchKitBuilder>> Adapters => new()
    {
        { "BatchKit", static builder => builder.UseLocal(Next).UseSessions() },
        { "BatchKit: frames", static builder => builder.UseFrameTransport(static _ => static (_, _) => default).AddFrameReceiver(Next) },
        { "BatchKit.Sockets", static builder => builder.UseBroadcast().Listen(new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, static (_, _) => null!) },
        { "BatchKit.RabbitMQ", static builder => builder.UseRabbitMq(static options => options.Hosts = [Nowhere]).ReceiveFromRabbitMq(Next) },
        { "BatchKit.RabbitMQ: own messages", static builder => builder.UseRabbitMq(static _ => new RabbitMqMessage("", "queue", default), static options => options.Hosts = [Nowhere]) },
        { "BatchKit.MassTransit", static builder => builder.UseMassTransit().ReceiveFromMassTransit(Next) },
        { "BatchKit.Mqtt", static builder => builder.UseMqtt(static options => (options.Server, options.EnvelopePrefix) = (new Uri($"mqtt://{Nowhere}"), "game")).ReceiveFromMqtt(Next) },
        { "BatchKit.Nats", static builder => builder.UseNats(static options => options.Url = $"nats://{Nowhere}").ReceiveFromNats(Next) },
        { "BatchKit.Redis", static builder => builder.UseRedis(static options => options.Configuration = Nowhere).ReceiveFromRedis(Next) },
        { "BatchKit.Postgres", static builder => WithDatabase(builder).UsePostgres().ReceiveFromPostgres("tasks", Next) },
        { "BatchKit.Postgres: outbox", static builder => WithDatabase(builder).UsePostgresOutbox(Next) },
        { "BatchKit.SignalR", static builder => builder.Services.AddSignalR().AddBatchKit(name: builder.Name) },
    };

    [Theory]
    [MemberData(nameof(Adapters))]
    public void A_container_can_be_disposed_synchronously_before_its_start(string adapter, Action<BatchKitBuilder> use)
    {
        using var provider = Build(adapter, use, out var services);

        foreach (var service in services)
            _ = service.IsKeyedService ? provider.GetKeyedService(service.ServiceType, service.ServiceKey) : provider.GetService(service.ServiceType);
    }

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task A_container_can_be_disposed_synchronously_after_its_start(string adapter, Action<BatchKitBuilder> use)
    {
        var provider = Build(adapter, use, out _);
        foreach (var service in provider.GetServices<IHostedService>())
        {
            if (service is IHostedLifecycleService lifecycle)
                await BeginAsync(lifecycle.StartingAsync);
            await BeginAsync(service.StartAsync);
        }

        provider.Dispose();
    }

    // There is no broker, so a start may wait for one: it is begun, and no longer waited for.
    private static async Task BeginAsync(Func<CancellationToken, Task> start)
    {
        using var cancellation = new CancellationTokenSource();
        var starting = start(cancellation.Token);
        await cancellation.CancelAsync();
        await starting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private static ServiceProvider Build(string adapter, Action<BatchKitBuilder> use, out ServiceDescriptor[] ofPackages)
    {
        var services = new ServiceCollection().AddLogging();
        use(services.AddBatchKit(adapter, static options => options.Node = 1));
        ofPackages = [.. services.Where(static service => service.ServiceType.Namespace?.StartsWith("BatchKit", StringComparison.Ordinal) == true)];
        return services.BuildServiceProvider();
    }

    private static BatchKitBuilder WithDatabase(BatchKitBuilder builder)
    {
        builder.Services.AddSingleton(NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=no one"));
        return builder;
    }

    private static IBatchTransport Next(IServiceProvider services) => new NoTransport();

    private sealed class NoTransport : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
    }
}
