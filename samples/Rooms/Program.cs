using BatchKit;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;

var builder = WebApplication.CreateBuilder(args);
builder.Services.AddSignalR().AddBatchKit();
var server = builder.Build();
server.MapHub<RoomHub>("/rooms");
await server.StartAsync();

await using var player = new HubConnectionBuilder().WithUrl($"{server.Urls.First()}/rooms").Build();
player.On<string>("Receive", Console.WriteLine);
await player.StartAsync();
await player.InvokeAsync("Look", "hall");
await server.WaitForShutdownAsync();

internal sealed class RoomHub(IOutputBuffer output) : Hub
{
    public async Task Look(string room)
    {
        await Groups.AddToGroupAsync(Context.ConnectionId, room);
        await using (output.BeginBufferingScope())
            for (var door = 1; door <= 1000; door++)
                await Clients.Group(room).SendAsync("Receive", $"There is door {door}.");
    }
}
