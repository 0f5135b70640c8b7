using BatchKit;
using BatchKit.Transports;
using OpenTelemetry.Metrics;
using OpenTelemetry.Trace;

var builder = Host.CreateApplicationBuilder(args);
builder.Services.AddBatchKit().UseLocal(_ => new Screen());
builder.Services.AddOpenTelemetry()
    .WithMetrics(metrics => metrics.AddBatchKitInstrumentation().AddConsoleExporter())
    .WithTracing(tracing => tracing.AddBatchKitInstrumentation().AddConsoleExporter());
using var host = builder.Build();
await host.StartAsync();
var player = OutputHandle.Connection(1);
var output = host.Services.GetRequiredService<IOutputBuffer>();
await using (output.BeginBufferingScope(player))
    for (var line = 1; line <= 1000; line++)
        output.Write(player, $"line {line}\r\n");
await host.StopAsync();

internal sealed class Screen : IBatchTransport
{
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
}
