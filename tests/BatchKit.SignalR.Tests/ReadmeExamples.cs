using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR.Tests;

/// <summary>The examples of the package's README.</summary>
public sealed class ReadmeExamples
{
    [Fact]
    public async Task A_rooms_loop_reaches_its_members()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders();
        builder.Services.AddSignalR().AddBatchKit();
        await using var app = builder.Build();
        app.MapHub<RoomHub>("/rooms");
        await app.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(new Uri($"{app.Urls.Single()}/rooms"));

        await client.Connection.InvokeAsync("Look", "hall").WithinDeadline();

        await client.WaitForAsync("line 1000");
        Assert.Equal(1, app.Services.GetRequiredService<SignalRTransport>().Limits.Writes);
        await client.DisposeAsync();
        await app.StopAsync();
    }

    [Fact]
    public void A_loop_outside_a_hub_and_a_backplane_compile()
    {
        var services = new ServiceCollection();
        services.AddSignalR().AddBatchKit(node => node
            .UseFrameTransport(_ => static (_, _) => ValueTask.CompletedTask)
            .AddFrameReceiver(provider => provider.GetRequiredService<SignalRTransport>()));

        Assert.Contains(services, static service => service.ServiceType == typeof(SignalRTransport));
    }

    internal sealed class RoomHub(IOutputBuffer output) : Hub
    {
        public async Task Look(string room)
        {
            await Groups.AddToGroupAsync(Context.ConnectionId, room);
            await using (output.BeginBufferingScope())
            {
                for (var line = 1; line <= 1000; line++)
                    await Clients.Group(room).SendAsync("Receive", $"line {line}");
            }
        }
    }

    internal sealed class Clock(IHubContext<RoomHub> hub, IOutputBuffer output)
    {
        public async Task TickAsync()
        {
            await using (output.BeginBufferingScope(HubHandles.Group<RoomHub>("hall")))
            {
                await hub.Clients.Group("hall").SendAsync("Receive", "tick");
                await hub.Clients.Group("hall").SendAsync("Receive", "tock");
            }
        }
    }
}
