using System.Diagnostics.CodeAnalysis;
using System.Diagnostics.Metrics;
using System.Text.Json.Serialization;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Adds routes, a router and a codec to one output buffer. <c>AddBatchKit</c> returns it; adapters extend it with their <c>UseX</c> methods.</summary>
/// <remarks>Use it from one thread, while you register services. The host fails to start when a buffer has no route, unless the process only receives. It also fails when a buffer has several routes and no router, unless they are those of <see cref="LocalFirstRouter"/>.</remarks>
public sealed class BatchKitBuilder
{
    private readonly List<RouteRegistration> _routes = [];
    private Func<IServiceProvider, IOutputRouter>? _router;
    private bool _hasCodec;
    private bool _allowsNoRoute;

    internal BatchKitBuilder(string name, IServiceCollection services)
    {
        Name = name;
        Services = services;
    }

    /// <summary>The buffer's name, which is the key of its services and the name of its options; empty for the unnamed buffer.</summary>
    public string Name { get; }

    /// <summary>The services that the buffer is registered in.</summary>
    public IServiceCollection Services { get; }

    internal IReadOnlyList<RouteRegistration> Routes => _routes;

    internal Func<IServiceProvider, IOutputRouter>? Router => _router;

    /// <summary>True when the process only receives, so that there is no buffer.</summary>
    internal bool IsReceiveOnly => _allowsNoRoute && _routes.Count == 0;

    /// <summary>Adds a route: a transport to the next hop, with its partitions.</summary>
    /// <param name="routeName">The route's name for the router and in metrics; unique in the buffer.</param>
    /// <param name="transport">
    /// Gets the transport when the buffer is created. Resolve it from the services: the container disposes it after the buffer; the buffer does not.
    /// The delegate must not resolve this buffer.
    /// </param>
    /// <param name="partitions">The number of partitions, from 1 (the default) to <see cref="OutputRoute.MaxPartitions"/>; see <see cref="OutputRoute"/>.</param>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    /// <exception cref="InvalidOperationException">The buffer already has a route of that name.</exception>
    public BatchKitBuilder AddRoute(string routeName, Func<IServiceProvider, IBatchTransport> transport, int partitions = 1)
    {
        ArgumentException.ThrowIfNullOrEmpty(routeName);
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentOutOfRangeException.ThrowIfLessThan(partitions, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(partitions, OutputRoute.MaxPartitions);
        if (HasRoute(routeName))
            throw new InvalidOperationException($"{this} already has a route '{routeName}'. Each adapter's Use method adds a route: call one of them, or give the other transport a route of another name by AddRoute, and choose by UseRouter.");
        _routes.Add(new RouteRegistration(routeName, transport, partitions));
        return this;
    }

    /// <summary>Adds a route with a router of its own before the buffer's router, which does not know the route.</summary>
    /// <param name="routeName">The route's name.</param>
    /// <param name="transport">Gets the transport when the buffer is created.</param>
    /// <param name="wrap">Creates the router from the services, the buffer's name, and the buffer's router, or, when there is none, its only other route.</param>
    internal BatchKitBuilder AddOwnRoute(
        string routeName, Func<IServiceProvider, IBatchTransport> transport, Func<IServiceProvider, string, IOutputRouter?, string, IOutputRouter> wrap)
    {
        AddRoute(routeName, transport);
        _routes[^1] = _routes[^1] with { Wrap = wrap };
        return this;
    }

    /// <summary>Adds the route to this node's own connections. Its name is <see cref="LocalFirstRouter.LocalRoute"/>.</summary>
    /// <inheritdoc cref="AddRoute"/>
    public BatchKitBuilder UseLocal(Func<IServiceProvider, IBatchTransport> transport) => AddRoute(LocalFirstRouter.LocalRoute, transport);

    /// <summary>Sets the router that chooses the routes of each handle.</summary>
    /// <remarks>
    /// A buffer with one route needs no router. Nor does one with the routes <c>local</c> and <c>remote</c>:
    /// <see cref="LocalFirstRouter"/> chooses between them.
    /// </remarks>
    /// <param name="router">Gets the router when the buffer is created.</param>
    /// <exception cref="InvalidOperationException">The buffer already has a router.</exception>
    public BatchKitBuilder UseRouter(Func<IServiceProvider, IOutputRouter> router)
    {
        ArgumentNullException.ThrowIfNull(router);
        if (_router is not null)
            throw new InvalidOperationException($"{this} already has a router. Call UseRouter once.");
        _router = router;
        return this;
    }

    /// <summary>Encodes typed messages as JSON: registers a <see cref="JsonMessageCodec"/> for the types of a generated context.</summary>
    /// <param name="context">The context, such as <c>GameJson.Default</c>.</param>
    /// <inheritdoc cref="UseCodec"/>
    public BatchKitBuilder UseJson(JsonSerializerContext context) => UseCodec(new JsonMessageCodec(context));

    /// <summary>
    /// Encodes typed messages with a codec: registers the codec and a <see cref="TypedOutput"/> over this buffer, keyed by the buffer's name. For the
    /// unnamed buffer, it registers both without a key too.
    /// </summary>
    /// <param name="codec">The codec, which receivers in this process can use for their <see cref="MessageDispatcher"/> as well.</param>
    /// <exception cref="InvalidOperationException">The buffer already has a codec.</exception>
    public BatchKitBuilder UseCodec(IMessageCodec codec)
    {
        ArgumentNullException.ThrowIfNull(codec);
        if (_hasCodec)
            throw new InvalidOperationException($"{this} already has a codec. Call UseCodec or UseJson once; another buffer may have another codec.");
        _hasCodec = true;
        Services.AddKeyedSingleton(Name, codec);
        Services.AddKeyedSingleton(Name, (services, key) => new TypedOutput(services.GetRequiredKeyedService<IOutputBuffer>(key), codec));
        if (Name.Length > 0)
            return this;
        Services.AddSingleton(codec);
        Services.AddSingleton(services => services.GetRequiredKeyedService<TypedOutput>(Name));
        return this;
    }

    /// <summary>Lets the host start without a route, for a process that only receives: it has no buffer to write to. Adapters call it in their <c>ReceiveFromX</c> methods.</summary>
    public BatchKitBuilder AllowNoRoute()
    {
        _allowsNoRoute = true;
        return this;
    }

    /// <summary>Registers a handler of received messages, as a scoped service unless the services have it already. Returns the factory of the transport that a receiver passes its batches to. Adapters call it in their <c>ReceiveFromX</c> methods.</summary>
    /// <remarks>The buffer's codec decodes typed messages; see <see cref="UseCodec"/>.</remarks>
    /// <typeparam name="THandler">The handler.</typeparam>
    public Func<IServiceProvider, IBatchTransport> AddHandler<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] THandler>()
        where THandler : class, IMessageHandler
    {
        Services.TryAddScoped<THandler>();
        return services => new HandlerTransport(
            new ScopedMessageHandler<THandler, ReceivedMessage>(services.GetRequiredService<IServiceScopeFactory>()), services.GetKeyedService<IMessageCodec>(Name),
            services.GetService<TimeProvider>(), services.GetService<ILogger<HandlerTransport>>());
    }

    /// <summary>True when a route of that name was added. Routes may be added in any order, so call it when services are created.</summary>
    /// <param name="routeName">The route's name.</param>
    public bool HasRoute(string routeName) => _routes.Exists(route => route.Name == routeName);

    /// <summary>Creates the settings of a receiver on this buffer's node. The receiver drops only the group output that the buffer's local route has already delivered here. It verifies frames when <see cref="OutputBufferOptions.FrameKeys"/> has keys. An <see cref="BatchReceiverOptions.IsDeliveredLocally"/> or <see cref="BatchReceiverOptions.Signer"/> that the services set is kept.</summary>
    /// <remarks>
    /// Adapters call it when they create their receiver. It does not create the buffer. The other settings are the services' <see cref="BatchReceiverOptions"/> of the buffer's name, such as
    /// <c>services.Configure&lt;BatchReceiverOptions&gt;(options => options.DeliveryTimeout = TimeSpan.FromSeconds(10))</c> for the unnamed buffer.
    /// </remarks>
    /// <param name="services">The services that the buffer is created from.</param>
    public BatchReceiverOptions CreateReceiverOptions(IServiceProvider services)
    {
        ArgumentNullException.ThrowIfNull(services);
        var options = services.GetRequiredService<IOptionsFactory<BatchReceiverOptions>>().Create(Name);
        options.IsDeliveredLocally ??= services.GetRequiredKeyedService<OwnOutput>(Name).IsDeliveredLocally;
        options.Signer ??= CreateSigner(services);
        options.BufferName = Name;
        options.Node = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(Name).Node;
        return options;
    }

    /// <summary>Creates the receiver that delivers an adapter's frames, with the settings of <see cref="CreateReceiverOptions"/> and the services' clock, logger and meters, where they have them.</summary>
    /// <remarks>Adapters call it when they create their own receiver.</remarks>
    /// <param name="services">The services that the buffer is created from.</param>
    /// <param name="next">Returns the transport that gets the batches.</param>
    /// <param name="configure">Changes the settings; null leaves them.</param>
    /// <exception cref="OptionsValidationException">A setting breaks a rule. The message names it.</exception>
    public BatchReceiver CreateReceiver(IServiceProvider services, Func<IServiceProvider, IBatchTransport> next, Action<BatchReceiverOptions>? configure = null)
    {
        ArgumentNullException.ThrowIfNull(next);
        var options = CreateReceiverOptions(services);
        configure?.Invoke(options);
        return new BatchReceiver(next(services), options, services.GetService<TimeProvider>(), services.GetService<ILogger<BatchReceiver>>(), services.GetService<IMeterFactory>());
    }

    /// <summary>Declares that this buffer leases its node's number at a broker. When <see cref="OutputBufferOptions.Node"/> is not set, the <see cref="NodeNumber"/> is drawn at random.</summary>
    /// <remarks>Adapters call it when they register a receiver, and lease the number before any hosted service starts; see <see cref="BeforeHostedServices"/>.</remarks>
    public BatchKitBuilder LeaseNode()
    {
        Services.TryAddSingleton<SharedNodeNumber>();
        return this;
    }

    /// <summary>Runs a task at the host's start, before any hosted service starts. The host waits for it, and does not start when it fails.</summary>
    /// <remarks>Adapters call it when they register a transport or a receiver that connects, or leases its node's number, before anything uses it. Tasks run in the order of the calls, unless the host starts its services concurrently.</remarks>
    /// <param name="create">Creates the task from the services, once, when the host creates its hosted services. The task's token is cancelled when the host's start is cancelled.</param>
    public BatchKitBuilder BeforeHostedServices(Func<IServiceProvider, Func<CancellationToken, Task>> create)
    {
        ArgumentNullException.ThrowIfNull(create);
        Services.AddSingleton<IHostedService>(services => new Preparation(create(services), services));
        return this;
    }

    /// <summary>Creates the signer of this buffer's frames, from <see cref="OutputBufferOptions.FrameKeys"/>; null when there are no keys.</summary>
    /// <remarks>Adapters call it when they create their transport.</remarks>
    /// <param name="services">The services that the buffer is created from.</param>
    public FrameSigner? CreateSigner(IServiceProvider services)
    {
        ArgumentNullException.ThrowIfNull(services);
        return FrameSigner.From(services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(Name), services.GetService<TimeProvider>());
    }

    /// <summary>A human-readable form of the buffer's name.</summary>
    public override string ToString() => Name.Length == 0 ? "The unnamed output buffer" : $"The output buffer '{Name}'";

    /// <summary>A task that runs before any hosted service starts.</summary>
    private sealed class Preparation(Func<CancellationToken, Task> run, IServiceProvider services) : IHostedLifecycleService
    {
        public Task StartingAsync(CancellationToken cancellationToken) => HostedPart.StartAsync(run, services, cancellationToken);

        public Task StartAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StoppingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

        public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;
    }
}

/// <summary>A route as it was registered: its transport is created with the buffer.</summary>
internal sealed record RouteRegistration(string Name, Func<IServiceProvider, IBatchTransport> Transport, int Partitions)
{
    /// <summary>Puts a router that knows this route before the buffer's; null for most routes.</summary>
    public Func<IServiceProvider, string, IOutputRouter?, string, IOutputRouter>? Wrap { get; init; }
}

/// <summary>Tells a receiver what its node's buffer has delivered locally. Until the buffer is created and attached, it has delivered nothing.</summary>
internal sealed class OwnOutput
{
    private volatile OutputBuffer? _buffer;

    public void Attach(OutputBuffer buffer) => _buffer = buffer;

    public bool IsDeliveredLocally(ProducerId producer, OutputHandle handle) => _buffer is { } buffer && buffer.IsDeliveredLocally(producer, handle);
}

/// <summary>Creates the buffer of one registration from the services.</summary>
internal sealed class OutputBufferFactory(BatchKitBuilder registration)
{
    // The container creates a singleton under a lock that its own thread may enter again, so a transport that asks for its buffer would
    // recurse until the stack overflows.
    private int _creatingThread;

    public OutputBuffer Create(IServiceProvider services)
    {
        if (_creatingThread == Environment.CurrentManagedThreadId)
        {
            throw new InvalidOperationException($"{registration} was requested while its own transports or router are created. "
                + "Resolve it later, at the first send.");
        }

        _creatingThread = Environment.CurrentManagedThreadId;
        try
        {
            var options = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(registration.Name);
            options.NumberInUse = services.GetRequiredKeyedService<NodeNumber>(registration.Name);
            var buffer = new OutputBuffer(CreateRoutes(services), CreateRouter(services, options), options, registration.Name,
                services.GetService<TimeProvider>(), services.GetService<ILogger<OutputBuffer>>(), services.GetService<IMeterFactory>());
            services.GetRequiredKeyedService<OwnOutput>(registration.Name).Attach(buffer);
            return buffer;
        }
        finally
        {
            _creatingThread = 0;
        }
    }

    private OutputRoute[] CreateRoutes(IServiceProvider services)
    {
        if (registration.Routes.Count == 0)
        {
            throw new InvalidOperationException($"{registration} has no route. Call UseLocal, AddRoute or an adapter's Use method "
                + "on what AddBatchKit returned.");
        }

        return [.. registration.Routes.Select(route => new OutputRoute(route.Name, route.Transport(services), route.Partitions))];
    }

    private IOutputRouter? CreateRouter(IServiceProvider services, OutputBufferOptions options)
    {
        string[] names = [.. registration.Routes.Where(static route => route.Wrap is null).Select(static route => route.Name)];
        if (names.Length == 0)
            throw new InvalidOperationException($"{registration} has no route to connections. Call UseLocal, AddRoute or an adapter's Use method on what AddBatchKit returned.");
        var router = CreateRouter(services, options, names);
        foreach (var route in registration.Routes)
            router = route.Wrap is { } wrap ? wrap(services, registration.Name, router, names[0]) : router;
        return router;
    }

    private IOutputRouter? CreateRouter(IServiceProvider services, OutputBufferOptions options, string[] names)
    {
        if (registration.Router is not null)
            return registration.Router(services);
        if (names.Length == 1)
            return null;
        if (names is [LocalFirstRouter.LocalRoute, LocalFirstRouter.RemoteRoute] or [LocalFirstRouter.RemoteRoute, LocalFirstRouter.LocalRoute])
            return new LocalFirstRouter(options.NumberInUse!);
        throw new InvalidOperationException($"{registration} has several routes ({string.Join(", ", names)}) and no router to choose "
            + "between them. Call UseRouter on what AddBatchKit returned.");
    }
}

/// <summary>Creates the buffer when the host starts, so that wrong settings fail there, and drains it when the host stops.</summary>
internal sealed class OutputBufferHostedService(IServiceProvider services, BatchKitBuilder registration) : IHostedService
{
    private OutputBuffer? _output;

    public Task StartAsync(CancellationToken cancellationToken)
    {
        _output = registration.IsReceiveOnly ? null : services.GetRequiredKeyedService<OutputBuffer>(registration.Name);
        return Task.CompletedTask;
    }

    public Task StopAsync(CancellationToken cancellationToken) => _output?.StopAsync(cancellationToken) ?? Task.CompletedTask;
}
