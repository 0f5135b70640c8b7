using MassTransit;

namespace BatchKit.Benchmarks.OverMassTransit;

/// <summary>What an application that publishes through MassTransit by hand sends: one line, or a list's.</summary>
[EntityName("benchmark.payload")]
public sealed record Payload(byte[] Bytes);
