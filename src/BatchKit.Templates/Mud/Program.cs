using System.Net;
using BatchKit.Broadcast;
using MudGame;

var builder = Host.CreateApplicationBuilder(args);
var settings = builder.Configuration.GetSection("Mud").Get<MudSettings>() ?? new MudSettings();
if (!IPAddress.TryParse(settings.Address, out var address))
    throw new InvalidOperationException($"Mud:Address must be an IP address such as 127.0.0.1, and is '{settings.Address}'.");
if (settings.Port is < 0 or > IPEndPoint.MaxPort)
    throw new InvalidOperationException($"Mud:Port must be from 0 to {IPEndPoint.MaxPort}, and is {settings.Port}.");
builder.Services.AddSingleton(settings);
builder.Services.AddSingleton<Room>();
builder.Services.AddBatchKit(builder.Configuration.GetSection("BatchKit"))
    .UseBroadcast(builder.Configuration.GetSection("Broadcast"))
    .Listen<Player>(new BroadcastListenerOptions { Protocol = ClientProtocol.Telnet, EndPoint = new IPEndPoint(address, settings.Port) });

using var host = builder.Build();
await host.RunAsync();
