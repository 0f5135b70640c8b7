using System.Diagnostics;
using Microsoft.Extensions.DependencyInjection;
using OpenTelemetry;
using OpenTelemetry.Metrics;
using OpenTelemetry.Trace;

namespace BatchKit.PackageMatrix;

/// <summary>The counters and spans of a buffer, through OpenTelemetry's SDK.</summary>
internal static class OpenTelemetryWay
{
    private const string Counter = "batchkit.messages.acknowledged";

    public static Way Create()
    {
        var counter = new CounterReader();
        var spans = new SpanCounter();
        return new Way("OpenTelemetry", OutputHandle.Named("counted"), services =>
        {
            var builder = services.AddBatchKit();
            builder.UseLocal(builder.AddHandler<ArrivalHandler>());
            services.AddOpenTelemetry()
                .WithMetrics(metrics => metrics.AddBatchKitInstrumentation().AddReader(new BaseExportingMetricReader(counter)))
                .WithTracing(tracing => tracing.AddBatchKitInstrumentation().AddProcessor(new SimpleActivityExportProcessor(spans)));
        })
        {
            Check = services =>
            {
                services.GetRequiredService<MeterProvider>().ForceFlush();
                return counter.Value != Arrivals.Expected ? $"{Counter} is {counter.Value}." : spans.Count == 0 ? "There is no span." : null;
            },
        };
    }

    private sealed class CounterReader : BaseExporter<Metric>
    {
        public long Value { get; private set; }

        public override ExportResult Export(in Batch<Metric> batch)
        {
            foreach (var metric in batch)
            {
                if (metric.Name != Counter)
                    continue;
                Value = 0;
                foreach (ref readonly var point in metric.GetMetricPoints())
                    Value += point.GetSumLong();
            }

            return ExportResult.Success;
        }
    }

    private sealed class SpanCounter : BaseExporter<Activity>
    {
        private int _count;

        public int Count => Volatile.Read(ref _count);

        public override ExportResult Export(in Batch<Activity> batch)
        {
            Interlocked.Add(ref _count, checked((int)batch.Count));
            return ExportResult.Success;
        }
    }
}
