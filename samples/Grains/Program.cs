using System.Text;
using BatchKit;
using Grains;

var builder = Host.CreateApplicationBuilder(args);
builder.UseOrleans(silo => silo.UseLocalhostClustering());
builder.Services.AddSingleton<ObserverTransport>();
builder.Services.AddBatchKit().UseLocal(services => services.GetRequiredService<ObserverTransport>());
using var host = builder.Build();
await host.StartAsync();
var grains = host.Services.GetRequiredService<IGrainFactory>();
var player = grains.GetGrain<IPlayerGrain>(7);
var screen = new Screen();
await player.ConnectAsync(grains.CreateObjectReference<IPlayerObserver>(screen));
await player.ListAsync(1000);
await host.WaitForShutdownAsync();

internal sealed class Screen : IPlayerObserver
{
    public Task ReceiveAsync(byte[] output) => Console.Out.WriteLineAsync($"{Encoding.UTF8.GetString(output).Split('\n').Length - 1} lines in one call");
}
