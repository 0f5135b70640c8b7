using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>A process with an example of docs/your-own-bus.md, and with a next hop that a test can hold up.</summary>
internal abstract class FrameNode : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly IHost _host;

    protected FrameNode(int node, Action<IServiceCollection> addExample)
    {
        Node = node;
        NextHop = new ScriptedTransport(_arrived);
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton(new MySockets(NextHop));
        addExample(application.Services);
        _host = application.Build();
    }

    /// <summary>A destination of all nodes.</summary>
    public static OutputHandle Room { get; } = OutputHandle.Named("tower");

    public int Node { get; }

    /// <summary>A destination of this node.</summary>
    public OutputHandle Connection => OutputHandle.Connection(Node, sequence: 7);

    public ScriptedTransport NextHop { get; }

    public IReadOnlyList<string> Texts => _arrived.Texts;

    protected IServiceProvider Services => _host.Services;

    /// <summary>Writes to a node and to all nodes in turn, and checks that all of it arrives in one order.</summary>
    public static async Task AssertOneOrderAsync(FrameNode sender, FrameNode receiver)
    {
        for (var number = 0; number < 10; number++)
        {
            await sender.WriteAsync(receiver.Connection, $"to the node {number}");
            await sender.WriteAsync(Room, $"to all {number}");
        }

        await receiver.WaitForMessagesAsync(20);
        Assert.Equal(Enumerable.Range(0, 10).SelectMany(static number => (string[])[$"to the node {number}", $"to all {number}"]), receiver.Texts);
    }

    public async Task WriteAsync(OutputHandle handle, string text)
    {
        var output = Services.GetRequiredService<IOutputBuffer>();
        output.Write(handle, text);
        await output.FlushAsync().AsTask().WithinDeadline();
    }

    public Task WaitForMessagesAsync(int count) => _arrived.WaitForMessagesAsync(count).WithinDeadline();

    public Task StopAsync() => _host.StopAsync().WithinDeadline();

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        await ((IAsyncDisposable)_host).DisposeAsync();
    }

    /// <summary>Whether the broker knows where this node begins to read.</summary>
    protected abstract Task<bool> IsKnownAsync();

    /// <summary>Starts a node, and returns when the broker knows it.</summary>
    protected static async Task<TNode> StartAsync<TNode>(TNode node)
        where TNode : FrameNode
    {
        await node._host.StartAsync().WithinDeadline();
        await Until.TrueAsync(node.IsKnownAsync);
        return node;
    }
}
