using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests;

/// <summary>One host of a chat: says lines to a lobby, and keeps what arrives.</summary>
internal abstract class Chatter
{
    private IHost? _host;

    public CollectingTransport Arrived { get; } = new();

    public OutputBuffer Output => _host!.Services.GetRequiredService<OutputBuffer>();

    public int Node => _host!.Services.GetRequiredService<NodeNumber>().Value;

    public OutputHandle Handle => OutputHandle.Connection(Node, sequence: 1);

    public async Task SayAsync(string text)
    {
        Output.Write(OutputHandle.Named("lobby"), Some.Bytes(text));
        await Output.FlushAsync().WithinDeadline();
    }

    /// <summary>Checks that two hosts have different leased numbers, and that each line of a lobby and each line for one of them arrives.</summary>
    public static async Task AssertChatAsync(Chatter ana, Chatter ben)
    {
        foreach (var chatter in new[] { ana, ben })
            await chatter.SayAsync("hello");
        ana.Output.Write(ben.Handle, "to ben"u8);
        ben.Output.Write(ana.Handle, "to ana"u8);
        await ana.Arrived.WaitForMessagesAsync(3);
        await ben.Arrived.WaitForMessagesAsync(3);

        Assert.NotEqual(ana.Node, ben.Node);
        Assert.InRange(Math.Min(ana.Node, ben.Node), NodeNumber.FirstLeased, OutputHandle.MaxNode);
        Assert.Equal(["hello", "hello", "to ana"], ana.Arrived.Texts.Order(StringComparer.Ordinal));
        Assert.Equal(["hello", "hello", "to ben"], ben.Arrived.Texts.Order(StringComparer.Ordinal));
    }

    protected async Task<IHost> StartAsync(IHost host)
    {
        _host = host;
        await host.StartAsync().WithinDeadline();
        return host;
    }
}
