using System.Text;
using BatchKit;
using BatchKit.Mqtt;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit().UseMqtt(builder.Configuration.GetSection("Mqtt"))
    .ReceiveFromMqtt<Readings>(options => options.Subscriptions.Add(new MqttSubscription { Filter = "sensors/#" }));
using var host = builder.Build();
await host.StartAsync();
var stopping = host.Services.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping;
var output = host.Services.GetRequiredService<IOutputBuffer>();
for (var second = 1; !stopping.IsCancellationRequested; second++, await Task.Delay(1000))
    using (output.BeginBufferingScope())
        for (var sensor = 1; sensor <= 100; sensor++)
            output.Write(OutputHandle.Named($"sensors/{sensor}"), $"{second}: {Random.Shared.Next(15, 25)} °C");
await host.StopAsync();

internal sealed class Readings : IMessageHandler
{
    public async ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            await Console.Out.WriteLineAsync($"{message.Handle.Name} at {Encoding.UTF8.GetString(message.Payload.Span)}");
    }
}
