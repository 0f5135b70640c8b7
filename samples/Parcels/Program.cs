using System.Text;
using BatchKit;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit(options => options.Node = 1).UseMassTransit().ReceiveFromMassTransit<Doorstep>();
using var host = builder.Build();
await host.StartAsync();
var street = OutputHandle.Named("street");
var output = host.Services.GetRequiredService<IOutputBuffer>();
using (output.BeginBufferingScope(street))
    for (var number = 1; number <= 1000; number++)
        output.Write(street, $"Parcel {number}");
await host.WaitForShutdownAsync();

internal sealed class Doorstep : IMessageHandler
{
    public async ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        await Console.Out.WriteLineAsync($"{batch.Count} parcels have arrived, first {Encoding.UTF8.GetString(batch[0].Payload.Span)}.");
    }
}
