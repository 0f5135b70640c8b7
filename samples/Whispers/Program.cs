using System.Text;
using BatchKit;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit(options => options.Node = 1).UseNats(builder.Configuration.GetSection("Nats")).ReceiveFromNats<Ear>();
using var host = builder.Build();
await host.StartAsync();
var player = OutputHandle.Connection(node: 1, sequence: 1);
var output = host.Services.GetRequiredService<IOutputBuffer>();
using (output.BeginBufferingScope(player))
    for (var number = 1; number <= 1000; number++)
        output.Write(player, $"Whisper {number}");
await host.WaitForShutdownAsync();

internal sealed class Ear : IMessageHandler
{
    public async ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var whisper in batch)
            await Console.Out.WriteLineAsync($"{Encoding.UTF8.GetString(whisper.Payload.Span)} was heard.");
    }
}
