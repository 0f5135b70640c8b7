using BatchKit;
using BatchKit.SignalR;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;

await using var first = await StartAsync();
await using var second = await StartAsync();
await using var reader = await ConnectAsync(first);
await using var writer = await ConnectAsync(second);
reader.On<string>("Said", Console.WriteLine);
await writer.InvokeAsync("Say", Enumerable.Range(1, 1000).Select(number => $"Line {number}"));
await first.WaitForShutdownAsync();

async Task<WebApplication> StartAsync()
{
    var builder = WebApplication.CreateBuilder(args);
    builder.WebHost.UseUrls("http://127.0.0.1:0");
    builder.Services.AddSignalR().AddBatchKit(node => node
        .UseRedis(builder.Configuration.GetSection("Redis"))
        .ReceiveFromRedis(services => services.GetRequiredService<SignalRTransport>()));
    var server = builder.Build();
    server.MapHub<Chat>("/chat");
    await server.StartAsync();
    return server;
}

static async Task<HubConnection> ConnectAsync(WebApplication server)
{
    var client = new HubConnectionBuilder().WithUrl($"{server.Urls.First()}/chat").Build();
    await client.StartAsync();
    return client;
}

internal sealed class Chat(IOutputBuffer output) : Hub
{
    public async Task Say(string[] lines)
    {
        await using (output.BeginBufferingScope())
            foreach (var line in lines)
                await Clients.All.SendAsync("Said", line);
    }
}
