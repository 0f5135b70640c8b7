using System.Net;
using System.Net.Sockets;
using BatchKit.Broadcast.Tests.Receiving;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>The stop of a host with listeners, however little time it has.</summary>
public sealed class HostStopTests
{
    [Fact]
    public async Task A_stop_without_time_ends_every_listener_and_says_goodbye()
    {
        var entered = new TaskCompletionSource();
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        var game = builder.Services.AddBatchKit().UseBroadcast(static options => options.GoodbyeMessage = "bye\n");
        for (var listener = 0; listener < 2; listener++)
        {
            game.Listen(new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, (_, _) =>
            {
                entered.TrySetResult();
                return new DeafHandler();
            });
        }

        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        var ends = host.Services.GetKeyedServices<BroadcastListener>("").Select(static listener => listener.EndPoint).ToArray();
        using var client = await LineClient.ConnectAsync(ends[0]);
        await entered.Task.WithinDeadline();
        await Until.TrueAsync(() => host.Services.GetRequiredService<BroadcastTransport>().GetStatistics().Connections == 1);

        await host.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();

        Assert.Equal("bye", await client.ReadLineAsync());
        foreach (var end in ends)
            await Until.TrueAsync(() => RefusesAsync(end));
        client.Dispose();
        await ((IAsyncDisposable)host).DisposeAsync().AsTask().WithinDeadline();
    }

    private static async Task<bool> RefusesAsync(IPEndPoint end)
    {
        using var late = new Socket(end.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await late.ConnectAsync(end).WithinDeadline();
            return false;
        }
        catch (SocketException)
        {
            return true;
        }
    }
}
