using BatchKit;
using BatchKit.SignalR;
using Microsoft.AspNetCore.SignalR;

var builder = WebApplication.CreateBuilder(args);
builder.Services.AddSignalR().AddBatchKit(node => node
    .UseRedis()
    .ReceiveFromRedis(services => services.GetRequiredService<SignalRTransport>()));
var chat = builder.Build();
chat.MapHub<Chat>("/chat");
chat.Run();

internal sealed class Chat(IOutputBuffer output) : Hub
{
    public Task Join(string room) => Groups.AddToGroupAsync(Context.ConnectionId, room);

    public async Task Say(string room, string[] lines)
    {
        await using (output.BeginBufferingScope())
        {
            foreach (var line in lines)
                await Clients.Group(room).SendAsync("Said", line);
        }
    }
}
