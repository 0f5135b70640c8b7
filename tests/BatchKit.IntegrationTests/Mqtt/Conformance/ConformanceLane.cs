using System.Runtime.CompilerServices;
using BatchKit.Mqtt;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Mqtt.Conformance.ConformanceBrokers))]

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>What MQTT promises to a client, at four brokers. <see cref="Deviations"/> lists what a broker does instead.</summary>
public abstract class ConformanceLane(ConformanceBrokers brokers)
{
    /// <summary>One scenario at a time: one of them restarts its broker.</summary>
    public const string Collection = "Conformance of MQTT";

    private static readonly TimeSpan DeviationLimit = TimeSpan.FromSeconds(10);

    /// <inheritdoc cref="ConformanceBrokers.Cases"/>
    public static TheoryData<string, string, MqttVersion> Cases => ConformanceBrokers.Cases;

    private protected async Task RunAsync(string broker, string scheme, MqttVersion version, Func<ConformanceScene, Task> scenario, [CallerMemberName] string name = "")
    {
        await using var scene = new ConformanceScene(await brokers.GetAsync(broker), scheme, version);
        if (Deviations.Find(broker, scheme, name) is { } deviation)
        {
            // What does not come would be waited for up to the deadline.
            var failure = await Record.ExceptionAsync(() => scenario(scene).WaitAsync(DeviationLimit));
            Assert.True(failure is not null, $"{broker} does as MQTT says now; the list has: {deviation}");
            return;
        }

        await scenario(scene);
    }
}
