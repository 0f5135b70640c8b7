using System.Collections.Concurrent;
using System.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using OpenTelemetry;
using OpenTelemetry.Metrics;
using OpenTelemetry.Trace;

namespace BatchKit.Tests.Diagnostics;

public sealed class InstrumentationTests
{
    private const int MaxInstruments = 100_000;

    [Fact]
    public async Task OpenTelemetry_exports_the_instruments_and_the_spans()
    {
        using var instruments = new CollectedNames<Metric>(static metric => metric.Name);
        using var spans = new CollectedNames<Activity>(static activity => activity.OperationName);
        // A host adds metrics by itself.
        var services = new ServiceCollection().AddMetrics();
        services.AddBatchKit().UseLocal(static _ => new CollectingTransport());
        services.AddOpenTelemetry()
            .WithMetrics(metrics => metrics.AddBatchKitInstrumentation())
            .WithTracing(tracing => tracing.AddBatchKitInstrumentation());
        // It gets the instruments of tests that run beside this one too, and by default takes no more after 1,000.
        services.ConfigureOpenTelemetryMeterProvider(metrics => metrics.SetMaxMetricStreams(MaxInstruments).AddReader(new BaseExportingMetricReader(instruments)));
        services.ConfigureOpenTelemetryTracerProvider(tracing => tracing.AddProcessor(new SimpleActivityExportProcessor(spans)));
        await using var provider = services.BuildServiceProvider();
        var meters = provider.GetRequiredService<MeterProvider>();
        _ = provider.GetRequiredService<TracerProvider>();
        var output = provider.GetRequiredService<IOutputBuffer>();

        var connection = new ConnectionReporter(changed: null, "sender", "a broker", provider.GetRequiredKeyedService<ConnectionMetrics>(string.Empty));
        output.Write(Some.Connection(), "hello"u8);
        await output.FlushAsync(TestContext.Current.CancellationToken).WithinDeadline();
        meters.ForceFlush();

        Assert.Contains("batchkit.messages.accepted", instruments.Names);
        Assert.Contains("batchkit.connections", instruments.Names);
        Assert.NotEmpty(spans.Names);
        GC.KeepAlive(connection);
    }

    private sealed class CollectedNames<T>(Func<T, string> nameOf) : BaseExporter<T>
        where T : class
    {
        public ConcurrentBag<string> Names { get; } = [];

        public override ExportResult Export(in Batch<T> batch)
        {
            foreach (var item in batch)
                Names.Add(nameOf(item));
            return ExportResult.Success;
        }
    }
}
