using BatchKit;
using BatchKit.MQTTnet;
using MQTTnet;

var builder = Host.CreateApplicationBuilder(args);
using var client = new MqttClientFactory().CreateMqttClient(new BatchedWriteClientAdapterFactory());
client.ApplicationMessageReceivedAsync += received => Console.Out.WriteLineAsync($"{received.ApplicationMessage.Topic}: {received.ApplicationMessage.ConvertPayloadToString()}");
builder.Services.AddBatchKit().UseMqttClient(_ => client);
using var host = builder.Build();
await host.StartAsync();
await client.ConnectAsync(new MqttClientOptionsBuilder().WithConnectionUri(builder.Configuration["Mqtt:Server"] ?? "mqtt://localhost").Build());
await client.SubscribeAsync("meters/#");
var output = host.Services.GetRequiredService<IOutputBuffer>();
using (output.BeginBufferingScope())
    for (var meter = 1; meter <= 1000; meter++)
        output.Write(OutputHandle.Named($"meters/{meter}"), $"{meter} kWh");
await host.WaitForShutdownAsync();
