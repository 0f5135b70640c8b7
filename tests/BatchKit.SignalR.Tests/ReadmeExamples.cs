using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR.Tests;

/// <summary>The example of the package's README that is no program.</summary>
public sealed class ReadmeExamples
{
    [Fact]
    public async Task A_scope_outside_a_hub_reaches_a_rooms_members_in_one_write()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders();
        builder.Services.AddSignalR().AddBatchKit();
        await using var app = builder.Build();
        app.MapHub<RoomHub>("/rooms");
        await app.StartAsync();
        await using var client = await HubClientConnection.ConnectAsync(new Uri($"{app.Urls.Single()}/rooms"));

        await client.Connection.InvokeAsync("Join", "hall").WithinDeadline();

        await new Clock(app.Services.GetRequiredService<IHubContext<RoomHub>>(), app.Services.GetRequiredService<IOutputBuffer>()).TickAsync().WithinDeadline();

        await client.WaitForAsync("tock");
        Assert.Equal(1, app.Services.GetRequiredService<SignalRTransport>().Limits.Writes);
        await client.DisposeAsync();
        await app.StopAsync();
    }

    internal sealed class RoomHub : Hub
    {
        public Task Join(string room) => Groups.AddToGroupAsync(Context.ConnectionId, room);
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
