using System.Text;
using System.Threading.Channels;
using BatchKit;
using BatchKit.Transports;

var bus = Channel.CreateUnbounded<byte[]>(); // stands for your broker
var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit(options => options.Node = 1)
    .UseFrameTransport(_ => (frame, cancellationToken) => bus.Writer.WriteAsync(frame.Bytes.ToArray(), cancellationToken))
    .AddFrameReceiver<Ear>();
using var host = builder.Build();
await host.StartAsync();
var room = OutputHandle.Named("room");
var output = host.Services.GetRequiredService<IOutputBuffer>();
using (output.BeginBufferingScope(room))
    for (var number = 1; number <= 1000; number++)
        output.Write(room, $"Line {number}");

var receiver = host.Services.GetRequiredService<FrameReceiver>();
host.Services.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping.Register(() => bus.Writer.Complete());
await foreach (var frame in bus.Reader.ReadAllAsync())
    await receiver.ReceiveAsync(frame, default);
await host.StopAsync();

internal sealed class Ear : IMessageHandler
{
    public ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken) =>
        new(Console.Out.WriteLineAsync($"{batch.Count} messages in one frame, first {Encoding.UTF8.GetString(batch[0].Payload.Span)}"));
}
