namespace BatchKit.Benchmarks.Brokers;

/// <summary>Marks benchmarks that cannot run without RabbitMQ.</summary>
[AttributeUsage(AttributeTargets.Class)]
internal sealed class NeedsRabbitMqAttribute : Attribute;
