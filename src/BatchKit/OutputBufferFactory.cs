using System.Diagnostics.Metrics;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>Makes the buffer of one registration out of the services.</summary>
internal sealed class OutputBufferFactory(BatchKitBuilder registration)
{
    // The container makes a singleton under a lock that its own thread passes again, so a transport that asks for
    // its buffer would recurse until the stack ends.
    private int _makingThread;

    public OutputBuffer Make(IServiceProvider services)
    {
        if (_makingThread == Environment.CurrentManagedThreadId)
        {
            throw new InvalidOperationException($"{registration} was asked for while its own transports or router are made. "
                + "Let the one that needs it take it later, from the service provider.");
        }

        _makingThread = Environment.CurrentManagedThreadId;
        try
        {
            var options = services.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(registration.Name);
            return new OutputBuffer(MakeRoutes(services), MakeRouter(services, options), options, registration.Name,
                services.GetService<TimeProvider>(), services.GetService<ILogger<OutputBuffer>>(), services.GetService<IMeterFactory>());
        }
        finally
        {
            _makingThread = 0;
        }
    }

    private OutputRoute[] MakeRoutes(IServiceProvider services)
    {
        if (registration.Routes.Count == 0)
        {
            throw new InvalidOperationException($"{registration} has no route. Call UseLocal, AddRoute or an adapter's Use method "
                + "on what AddBatchKit returned.");
        }

        return [.. registration.Routes.Select(route => new OutputRoute(route.Name, route.Transport(services), route.Partitions))];
    }

    private IOutputRouter? MakeRouter(IServiceProvider services, OutputBufferOptions options)
    {
        if (registration.Router is not null)
            return registration.Router(services);
        if (registration.Routes.Count == 1)
            return null;
        var names = registration.Routes.Select(route => route.Name).ToArray();
        if (names is [LocalFirstRouter.LocalRoute, LocalFirstRouter.RemoteRoute] or [LocalFirstRouter.RemoteRoute, LocalFirstRouter.LocalRoute])
            return new LocalFirstRouter(options.Node);
        throw new InvalidOperationException($"{registration} has several routes ({string.Join(", ", names)}) and nothing that chooses "
            + "between them. Call UseRouter on what AddBatchKit returned.");
    }
}
