using System.Net;
using System.Net.Http.Json;
using System.Text.Json;
using BatchKit.Broadcast;
using BatchKit.TestServers.Mud;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.DependencyInjection;
using MudServer.Hosting;

namespace MudServer.Tests.Support;

/// <summary>The server in this process, on ports of its own.</summary>
internal sealed class RunningMud : IAsyncDisposable
{
    private readonly WebApplication _application;

    private RunningMud(WebApplication application) => _application = application;

    public IPEndPoint EndPoint => _application.Services.GetRequiredKeyedService<BroadcastListener>(MudBuffers.Input).EndPoint;

    public Uri Page => new(_application.Urls.First());

    public Uri Play => new UriBuilder(Page) { Scheme = "ws", Path = "/play" }.Uri;

    public static async Task<RunningMud> StartAsync(params string[] arguments)
    {
        var application = MudApplication.Build(["--port", "0", "--http-port", "0", .. arguments]);
        await MudApplication.StartAsync(application).WithinDeadline();
        return new RunningMud(application);
    }

    public Task<TelnetClient> ConnectAsync() => TelnetClient.ConnectAsync(EndPoint);

    /// <summary>Connects, and steps ashore under a name.</summary>
    public async Task<TelnetClient> LoginAsync(string name)
    {
        var client = await ConnectAsync();
        await client.LoginAsync(name);
        return client;
    }

    public async Task<JsonElement> GetAsync(string path)
    {
        using var http = new HttpClient();
        return await http.GetFromJsonAsync<JsonElement>(new Uri(_application.Urls.First() + path)).WithinDeadline();
    }

    public Task StopAsync() => _application.StopAsync().WithinDeadline();

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        await _application.DisposeAsync();
    }
}
