using BatchKit;
using MassTransit;
using Telnet;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddMassTransit(setup => // as before
{
    setup.AddConsumer<TelnetConsumer>();
    setup.UsingInMemory((context, bus) => bus.ConfigureEndpoints(context));
});
builder.Services.AddBatchKit().UseMassTransit<TelnetOutputMessage>(batch => new(batch.Handle.Number, batch.Payload.ToArray()));
using var host = builder.Build();
await host.StartAsync();
var player = OutputHandle.Connection(7);
var output = host.Services.GetRequiredService<IOutputBuffer>();
await using (output.BeginBufferingScope(player))
    for (var item = 1; item <= 1000; item++)
        output.Write(player, $"item {item}\r\n");
await host.WaitForShutdownAsync();
