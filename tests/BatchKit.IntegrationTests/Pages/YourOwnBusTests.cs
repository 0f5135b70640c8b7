using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>The examples of docs/your-own-bus.md that need no broker.</summary>
public sealed class YourOwnBusTests
{
    [Fact]
    public Task Two_delegates_carry_messages_over_any_bus()
    {
        var bus = new OneLineBus();
        return CarryAsync(bus.Add, provider => bus.Connect(provider.GetRequiredService<FrameReceiver>()));
    }

    [Fact]
    public async Task They_do_so_without_a_container()
    {
        var bus = new OneLineBus();
        var arrived = new CollectingTransport();
        var (transport, receiver) = bus.Create(arrived);
        using var disposed = transport;
        bus.Connect(receiver);
        await using var output = new OutputBuffer(transport);

        output.Write(OutputHandle.Named("room"), "hello");
        await output.FlushAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["hello"], arrived.Texts);
    }

    private static async Task CarryAsync(Action<IServiceCollection> add, Action<IServiceProvider> connect)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton<MySockets>();
        add(application.Services);
        using var host = application.Build();
        connect(host.Services);
        await host.StartAsync().WithinDeadline();
        var output = host.Services.GetRequiredService<IOutputBuffer>();

        output.Write(OutputHandle.Connection(node: 1, sequence: 7), "to this node");
        output.Write(OutputHandle.Named("room"), "to all nodes");
        await output.FlushAsync().AsTask().WithinDeadline();

        await Until.TrueAsync(() => host.Services.GetRequiredService<MySockets>().Messages == 2);
        await host.StopAsync().WithinDeadline();
    }
}
