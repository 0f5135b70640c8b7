using System.Diagnostics.Metrics;
using System.Net;
using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Nats;
using BatchKit.RabbitMQ;
using BatchKit.Redis;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

namespace BatchKit.Architecture.Tests;

/// <summary>What holds for the services of every package, without a broker.</summary>
public sealed class ServicesTests
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
        using var provider = Create(adapter, use);
    }

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task A_container_can_be_disposed_synchronously_after_its_start(string adapter, Action<BatchKitBuilder> use)
    {
        var provider = Create(adapter, use);
        await BeginAsync(provider);

        provider.Dispose();
    }

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task Meters_have_the_name_of_their_buffer_or_of_their_queue(string adapter, Action<BatchKitBuilder> use)
    {
        var published = new List<Meter>();
        await StartAsync(adapter, use, instrument =>
        {
            // Those of the connections of queues are told apart by what they connect to.
            if (!instrument.Name.StartsWith("batchkit.connection", StringComparison.Ordinal))
                published.Add(instrument.Meter);
        });

        Assert.All(published.Distinct(), static meter => Assert.Contains(meter.Tags!, static tag => tag.Key is "batchkit.buffer" or "messaging.destination.name"));
    }

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task A_meter_listener_that_throws_at_instruments_keeps_no_service_from_its_start(string adapter, Action<BatchKitBuilder> use)
    {
        var thrown = 0;

        await StartAsync(adapter, use, _ =>
        {
            Interlocked.Increment(ref thrown);
            throw new NotSupportedException("The listener is broken.");
        });

        Assert.True(thrown > 0);
    }

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task All_registrations_of_a_transport_come_before_the_unnamed_buffer_which_drains_into_it(string adapter, Action<BatchKitBuilder> use)
    {
        Assert.NotEmpty(adapter);
        var services = new ServiceCollection().AddLogging();
        use(services.AddBatchKit());
        ServiceDescriptor[] transports = [.. services.Where(static service => !service.IsKeyedService && (service.ServiceType == typeof(IMqttPublisher) || service.ServiceType.IsAssignableTo(typeof(IBatchTransport))))];
        var factory = services.Single(static service => service.IsKeyedService && service.ServiceType == typeof(OutputBuffer)).KeyedImplementationFactory!;
        await using var provider = services.BuildServiceProvider();
        var watched = new WatchedProvider(provider);

        await using var buffer = (OutputBuffer)factory(watched, "");

        Assert.All(transports, transport => Assert.Contains(transport.ServiceType, watched.Requested));
    }

    [Fact]
    public async Task A_container_disposes_the_buffer_before_a_transport_that_was_injected_after_it()
    {
        var published = 0;
        var services = new ServiceCollection();
        services.AddBatchKit().UseFrameTransport(_ => (_, _) =>
        {
            published++;
            return default;
        });
        var provider = services.BuildServiceProvider();
        var output = provider.GetRequiredService<IOutputBuffer>();
        _ = provider.GetRequiredService<FrameTransport>();
        using var scope = output.BeginBufferingScope(OutputHandle.Named("room"));
        output.Write(OutputHandle.Named("room"), "farewell"u8);

        await provider.DisposeAsync().WithinDeadline();

        Assert.Equal(1, published);
    }

    [Fact]
    public async Task A_publisher_of_the_applications_own_may_write_to_the_buffer()
    {
        var services = new ServiceCollection().AddLogging();
        services.AddBatchKit().UseMqtt(static options => options.Server = new Uri($"mqtt://{Nowhere}"));
        services.AddSingleton<IMqttPublisher, WritingPublisher>();
        await using var provider = services.BuildServiceProvider();

        Assert.Same(provider.GetRequiredService<IOutputBuffer>(), Assert.IsType<WritingPublisher>(provider.GetRequiredService<IMqttPublisher>()).Output);
    }

    [Fact]
    public void Health_checks_of_one_name_are_refused_by_the_names_of_their_owners()
    {
        var services = new ServiceCollection();
        services.AddPostgresQueueReceiver("Orders", static _ => null!).AddPostgresQueueReceiver("mail", static _ => null!);

        var ofQueues = Assert.Throws<InvalidOperationException>(() => services.AddPostgresQueueReceiver("orders", static _ => null!));
        var ofBuffer = Assert.Throws<InvalidOperationException>(() => services.AddBatchKit("queue-mail").UsePostgres());

        Assert.Contains("of the queue 'Orders' and of the queue 'orders'", ofQueues.Message, StringComparison.Ordinal);
        Assert.Contains("of the queue 'mail' and of the output buffer 'queue-mail'", ofBuffer.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Two_buffers_that_would_get_each_others_output_are_refused_by_their_prefix()
    {
        await RefusesAsync<NatsReceiver>(static (builder, prefix) => builder.ReceiveFromNats(Next, options => (options.Url, options.Prefix) = ($"nats://{Nowhere}", prefix ?? options.Prefix)));
        await RefusesAsync<RedisReceiver>(static (builder, prefix) => builder.ReceiveFromRedis(Next, options => (options.Configuration, options.Prefix) = (Nowhere, prefix ?? options.Prefix)));
    }

    private static async Task RefusesAsync<TReceiver>(Action<BatchKitBuilder, string?> receive)
        where TReceiver : class
    {
        var services = new ServiceCollection();
        receive(services.AddBatchKit("first"), null);
        receive(services.AddBatchKit("second"), null);
        receive(services.AddBatchKit("third"), "third");
        await using var provider = services.BuildServiceProvider();
        _ = provider.GetRequiredKeyedService<TReceiver>("first");

        var refused = Assert.Throws<InvalidOperationException>(() => provider.GetRequiredKeyedService<TReceiver>("second"));

        Assert.Contains("'second'", refused.Message, StringComparison.Ordinal);
        Assert.Contains("'first'", refused.Message, StringComparison.Ordinal);
        Assert.Contains("with the Prefix 'batchkit'", refused.Message, StringComparison.Ordinal);
        _ = provider.GetRequiredKeyedService<TReceiver>("third");
    }

    private static async Task StartAsync(string adapter, Action<BatchKitBuilder> use, Action<Instrument> published)
    {
        IMeterFactory? factory = null;
        using var listener = new MeterListener();
        listener.InstrumentPublished = (instrument, _) =>
        {
            // Other tests have meters of the same name.
            if (factory is not null && instrument.Meter.Scope == factory)
                published(instrument);
        };
        listener.Start();
        await using var provider = Create(adapter, use, own => factory = own);
        await BeginAsync(provider);
    }

    private static async Task BeginAsync(IServiceProvider provider)
    {
        foreach (var service in provider.GetServices<IHostedService>())
        {
            if (service is IHostedLifecycleService lifecycle)
                await BeginAsync(lifecycle.StartingAsync);
            await BeginAsync(service.StartAsync);
        }
    }

    // A start may wait for the broker: it is begun, and no longer waited for.
    private static async Task BeginAsync(Func<CancellationToken, Task> start)
    {
        using var cancellation = new CancellationTokenSource();
        var starting = start(cancellation.Token);
        await cancellation.CancelAsync();
        try
        {
            await starting;
        }
        catch (OperationCanceledException)
        {
            // It was begun.
        }
    }

    /// <summary>Creates every service that the package has registered.</summary>
    private static ServiceProvider Create(string adapter, Action<BatchKitBuilder> use, Action<IMeterFactory>? meters = null)
    {
        var services = new ServiceCollection().AddLogging().AddMetrics();
        use(services.AddBatchKit(adapter, static options => options.Node = 1));
        ServiceDescriptor[] ofPackages = [.. services.Where(static service => service.ServiceType.Namespace?.StartsWith("BatchKit", StringComparison.Ordinal) == true)];
        var provider = services.BuildServiceProvider();
        meters?.Invoke(provider.GetRequiredService<IMeterFactory>());
        foreach (var service in ofPackages)
            _ = service.IsKeyedService ? provider.GetKeyedService(service.ServiceType, service.ServiceKey) : provider.GetService(service.ServiceType);
        return provider;
    }

    private static BatchKitBuilder WithDatabase(BatchKitBuilder builder)
    {
        builder.Services.AddSingleton(NpgsqlDataSource.Create("Host=127.0.0.1;Port=1;Username=no one"));
        return builder;
    }

    private static IBatchTransport Next(IServiceProvider services) => new NoTransport();

    /// <summary>Notes what is asked for without a key.</summary>
    private sealed class WatchedProvider(ServiceProvider provider) : IKeyedServiceProvider
    {
        public HashSet<Type> Requested { get; } = [];

        public object? GetService(Type serviceType)
        {
            Requested.Add(serviceType);
            return provider.GetService(serviceType);
        }

        public object? GetKeyedService(Type serviceType, object? serviceKey) => provider.GetKeyedService(serviceType, serviceKey);

        public object GetRequiredKeyedService(Type serviceType, object? serviceKey) => provider.GetRequiredKeyedService(serviceType, serviceKey);
    }

    private sealed class WritingPublisher(IOutputBuffer output) : IMqttPublisher
    {
        public IOutputBuffer Output => output;

        public ValueTask<MqttPublishReport> PublishManyAsync(ReadOnlyMemory<MqttMessage> messages, CancellationToken cancellationToken = default) => throw new NotSupportedException();
    }

    private sealed class NoTransport : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
    }
}
