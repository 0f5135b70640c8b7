using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>A web application on a free port of this machine, which logs nothing.</summary>
internal static class LoopbackApplication
{
    // The sink begins up to 64 at a time; once they are upgraded they don't count. Nearly all handles of the process are for clients.
    private const int MaxBeginning = 96;

    public static WebApplication Build(Action<IServiceCollection>? services = null, Action<ListenOptions>? listen = null)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, 0, listen ?? (_ => { })));
        services?.Invoke(builder.Services);
        return builder.Build();
    }

    public static WebApplication BuildForWebSockets() =>
        Build(static services => services.Configure<KestrelServerOptions>(static kestrel => kestrel.Limits.MaxConcurrentConnections = MaxBeginning));

    /// <returns>The port.</returns>
    public static async Task<int> StartAsync(WebApplication application)
    {
        await application.StartAsync();
        var addresses = application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!;
        return new Uri(addresses.Addresses.Single()).Port;
    }
}
