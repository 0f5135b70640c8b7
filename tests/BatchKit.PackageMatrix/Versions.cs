using System.Diagnostics;
using MassTransit;
using MQTTnet;
using NATS.Client.Core;
using Npgsql;
using OpenTelemetry;
using RabbitMQ.Client;
using StackExchange.Redis;

namespace BatchKit.PackageMatrix;

/// <summary>What the program runs with.</summary>
internal static class Versions
{
    private static readonly Type[] Samples =
    [
        typeof(IConnection), typeof(IBus), typeof(MqttClientFactory), typeof(NpgsqlConnection), typeof(ConnectionMultiplexer), typeof(NatsConnection), typeof(Sdk), typeof(Microsoft.Extensions.Options.Options), typeof(Microsoft.Extensions.Hosting.Host),
    ];

    public static IEnumerable<string> List() =>
        from sample in Samples
        let file = FileVersionInfo.GetVersionInfo(sample.Assembly.Location)
        select $"{sample.Assembly.GetName().Name} {file.ProductVersion?.Split('+')[0]}";
}
