using System.Net;
using BatchKit.Broadcast;
using MudGame;

var builder = Host.CreateApplicationBuilder(args);
var settings = builder.Configuration.GetSection("Mud").Get<MudSettings>() ?? new MudSettings();
builder.Services.AddSingleton(settings);
builder.Services.AddSingleton<Room>();
builder.Services.AddBatchKit(builder.Configuration.GetSection("BatchKit"))
    .UseBroadcast(builder.Configuration.GetSection("Broadcast"))
    .Listen<Player>(new BroadcastListenerOptions { Protocol = ClientProtocol.Telnet, EndPoint = new IPEndPoint(IPAddress.Parse(settings.Address), settings.Port) });

using var host = builder.Build();
await host.RunAsync();
