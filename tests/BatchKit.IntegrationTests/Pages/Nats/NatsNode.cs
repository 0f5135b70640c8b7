using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.IntegrationTests.Pages.Nats;

/// <summary>A process with the page's example, and with a next hop that a test can hold up.</summary>
internal sealed class NatsNode : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly IHost _host;

    private NatsNode(int node, Uri server)
    {
        Node = node;
        NextHop = new ScriptedTransport(_arrived);
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton(new MySockets(NextHop));
        NatsExample.Add(application.Services, node, server.ToString());
        _host = application.Build();
    }

    public int Node { get; }

    public ScriptedTransport NextHop { get; }

    public IReadOnlyList<string> Texts => _arrived.Texts;

    /// <summary>Starts it, and returns when the server knows its consumer.</summary>
    public static async Task<NatsNode> StartAsync(int node, Uri server)
    {
        var started = new NatsNode(node, server);
        await started._host.StartAsync().WithinDeadline();
        await Until.TrueAsync(started.HasConsumerAsync);
        return started;
    }

    public async Task WriteAsync(OutputHandle handle, string text)
    {
        var output = _host.Services.GetRequiredService<IOutputBuffer>();
        output.Write(handle, text);
        await output.FlushAsync().AsTask().WithinDeadline();
    }

    public Task WaitForMessagesAsync(int count) => _arrived.WaitForMessagesAsync(count).WithinDeadline();

    public Task StopAsync() => _host.StopAsync().WithinDeadline();

    /// <summary>Ends its connection while it works, as the end of a process does: the server hears nothing more from it.</summary>
    public ValueTask BreakAsync() => _host.Services.GetRequiredService<INatsConnection>().DisposeAsync();

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        await ((IAsyncDisposable)_host).DisposeAsync();
    }

    private async Task<bool> HasConsumerAsync()
    {
        try
        {
            await _host.Services.GetRequiredService<INatsJSContext>().GetConsumerAsync("frames", $"node-{Node}");
            return true;
        }
        catch (NatsJSApiException exception) when (exception.Error.Code == 404)
        {
            return false;
        }
    }
}
