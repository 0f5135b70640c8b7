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
    public static WebApplication Build(Action<IServiceCollection>? services = null, Action<ListenOptions>? listen = null)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, 0, listen ?? (_ => { })));
        services?.Invoke(builder.Services);
        return builder.Build();
    }

    /// <returns>The port.</returns>
    public static async Task<int> StartAsync(WebApplication application)
    {
        await application.StartAsync();
        var addresses = application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!;
        return new Uri(addresses.Addresses.Single()).Port;
    }
}
