using System.Reflection;
using BatchKit.TestServers.Nats;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Benchmarks.Brokers;

/// <summary>Why benchmarks can't run here.</summary>
internal static class MissingServer
{
    /// <returns>The reason; null when the class can run.</returns>
    public static string? WhyFor(Type type) =>
        type.GetCustomAttribute<NeedsRabbitMqAttribute>() is not null ? RabbitMqServer.WhyMissing
        : type.GetCustomAttribute<NeedsNatsAttribute>() is not null ? NatsServer.WhyMissing
        : null;
}

/// <summary>Marks benchmarks that cannot run without RabbitMQ.</summary>
[AttributeUsage(AttributeTargets.Class)]
internal sealed class NeedsRabbitMqAttribute : Attribute;

/// <summary>Marks benchmarks that cannot run without NATS.</summary>
[AttributeUsage(AttributeTargets.Class)]
internal sealed class NeedsNatsAttribute : Attribute;
