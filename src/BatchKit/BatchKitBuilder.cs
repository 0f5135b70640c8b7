using System.Text.Json.Serialization;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit;

/// <summary>Says where one output buffer's output goes. Made by <c>AddBatchKit</c>; adapters add their <c>UseX</c> to it.</summary>
/// <remarks>For one thread, while the services are registered. What is missing or doubled stops the start with an error that names it.</remarks>
public sealed class BatchKitBuilder
{
    private readonly List<RouteRegistration> _routes = [];
    private Func<IServiceProvider, IOutputRouter>? _router;
    private bool _hasCodec;

    internal BatchKitBuilder(string name, IServiceCollection services)
    {
        Name = name;
        Services = services;
    }

    /// <summary>The buffer's name: the key of its services and the name of its options; empty for the unnamed buffer.</summary>
    public string Name { get; }

    /// <summary>The services that the buffer is registered with.</summary>
    public IServiceCollection Services { get; }

    internal IReadOnlyList<RouteRegistration> Routes => _routes;

    internal Func<IServiceProvider, IOutputRouter>? Router => _router;

    /// <summary>Adds a way out of this process.</summary>
    /// <param name="routeName">What the router and the metrics call it; once per buffer.</param>
    /// <param name="transport">Finds the next hop when the buffer is made. Take it from the services, which dispose it after the buffer; the buffer
    /// does not. It must not ask for this buffer itself.</param>
    /// <param name="partitions">Ordered lanes, from 1 to 64; see <see cref="OutputRoute"/>.</param>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The partitions are outside their range.</exception>
    /// <exception cref="InvalidOperationException">The buffer has a route of that name.</exception>
    public BatchKitBuilder AddRoute(string routeName, Func<IServiceProvider, IBatchTransport> transport, int partitions = 1)
    {
        ArgumentException.ThrowIfNullOrEmpty(routeName);
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentOutOfRangeException.ThrowIfLessThan(partitions, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(partitions, OutputRoute.MaxPartitions);
        if (HasRoute(routeName))
            throw new InvalidOperationException($"{this} already has a route '{routeName}'.");
        _routes.Add(new RouteRegistration(routeName, transport, partitions));
        return this;
    }

    /// <summary>Adds the route to this node's own connections, <see cref="LocalFirstRouter.LocalRoute"/>.</summary>
    /// <inheritdoc cref="AddRoute"/>
    public BatchKitBuilder UseLocal(Func<IServiceProvider, IBatchTransport> transport) => AddRoute(LocalFirstRouter.LocalRoute, transport);

    /// <summary>
    /// Chooses routes by a router. Not needed with one route, which then takes everything, nor with a local and a remote one, between
    /// which <see cref="LocalFirstRouter"/> chooses.
    /// </summary>
    /// <param name="router">Finds the router when the buffer is made.</param>
    /// <exception cref="InvalidOperationException">The buffer has a router.</exception>
    public BatchKitBuilder UseRouter(Func<IServiceProvider, IOutputRouter> router)
    {
        ArgumentNullException.ThrowIfNull(router);
        if (_router is not null)
            throw new InvalidOperationException($"{this} already has a router.");
        _router = router;
        return this;
    }

    /// <summary>Encodes typed messages as JSON: registers a <see cref="JsonMessageCodec"/> for the types of a generated context.</summary>
    /// <param name="context">The context, such as <c>GameJson.Default</c>.</param>
    /// <inheritdoc cref="UseCodec"/>
    public BatchKitBuilder UseJson(JsonSerializerContext context) => UseCodec(new JsonMessageCodec(context));

    /// <summary>
    /// Encodes typed messages by a codec: registers it and a <see cref="TypedOutput"/> over this buffer, keyed by the buffer's name, and for the
    /// unnamed buffer without a key too.
    /// </summary>
    /// <param name="codec">The codec, which receivers in this process can use for their <see cref="MessageDispatcher"/> as well.</param>
    /// <exception cref="InvalidOperationException">The buffer has a codec.</exception>
    public BatchKitBuilder UseCodec(IMessageCodec codec)
    {
        ArgumentNullException.ThrowIfNull(codec);
        if (_hasCodec)
            throw new InvalidOperationException($"{this} already has a codec.");
        _hasCodec = true;
        Services.AddKeyedSingleton(Name, codec);
        Services.AddKeyedSingleton(Name, (services, key) => new TypedOutput(services.GetRequiredKeyedService<IOutputBuffer>(key), codec));
        if (Name.Length > 0)
            return this;
        Services.AddSingleton(codec);
        Services.AddSingleton(services => services.GetRequiredKeyedService<TypedOutput>(Name));
        return this;
    }

    /// <summary>True when a route of that name was added; ask when services are made, as routes may be added in any order.</summary>
    /// <param name="routeName">The route's name.</param>
    public bool HasRoute(string routeName) => _routes.Exists(route => route.Name == routeName);

    /// <summary>The buffer, for a person.</summary>
    public override string ToString() => Name.Length == 0 ? "The unnamed output buffer" : $"The output buffer '{Name}'";
}
