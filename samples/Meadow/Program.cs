using BatchKit.Broadcast;
using Meadow;

// Open the page in two windows, and move the pointer. Positions are latest values: over a slow connection one sees fewer steps, and none that is old. Chat arrives whole.
var builder = WebApplication.CreateBuilder(new WebApplicationOptions { Args = args, ContentRootPath = AppContext.BaseDirectory });
builder.Services.AddBatchKit().UseBroadcast(options => options.SendBufferBytes = 4096);
builder.Services.AddHostedService<Flock>();
var game = builder.Build();
game.UseFileServer();
game.MapBatchKitWebSockets<Player>("/play");
game.Run();
