using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A server with <see cref="TestHub"/> on a free port.</summary>
public sealed class HubServer : IAsyncDisposable
{
    private readonly WebApplication _application;

    private HubServer(WebApplication application) => _application = application;

    public Uri Address => new($"{_application.Urls.Single()}/hub");

    public IHubContext<TestHub> Hub => _application.Services.GetRequiredService<IHubContext<TestHub>>();

    public OutputBuffer Output => _application.Services.GetRequiredService<OutputBuffer>();

    internal Clients.ClientLimits Counters => _application.Services.GetRequiredService<SignalRTransport>().Limits;

    /// <summary>How many clients are connected.</summary>
    public int Connections => _application.Services.GetRequiredService<SignalRTransport>().Connections;

    public IServiceProvider Services => _application.Services;

    /// <summary>Starts a server.</summary>
    /// <param name="configure">Adds a backplane.</param>
    /// <param name="options">Changes the settings.</param>
    /// <param name="services">Changes the services.</param>
    /// <param name="reconnects">Whether clients may reconnect statefully.</param>
    public static async Task<HubServer> StartAsync(
        Action<BatchKitBuilder>? configure = null, Action<SignalROptions>? options = null, Action<IServiceCollection>? services = null, bool reconnects = false)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders();
        builder.Services.AddSingleton<IUserIdProvider, UserInAddress>();
        services?.Invoke(builder.Services);
        builder.Services.AddSignalR().AddMessagePackProtocol().AddBatchKit(configure, options);
        var application = builder.Build();
        application.MapHub<TestHub>("/hub", dispatcher => dispatcher.AllowStatefulReconnects = reconnects);
        await application.StartAsync();
        return new HubServer(application);
    }

    /// <summary>Sends each of these clients a last message in a flow of its own, and waits until it has come: all that was sent before has come then too.</summary>
    public async Task FlushAsync(params HubClientConnection[] clients)
    {
        var text = $"end {Guid.NewGuid()}";
        foreach (var client in clients)
            await Hub.Clients.Client(client.Id).SendAsync(TestHub.Receive, text);
        foreach (var client in clients)
            await client.WaitForAsync(text);
    }

    public async ValueTask DisposeAsync()
    {
        await _application.StopAsync();
        await _application.DisposeAsync();
    }
}
