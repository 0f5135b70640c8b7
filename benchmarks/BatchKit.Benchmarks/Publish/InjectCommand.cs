using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Publishers;

namespace BatchKit.Benchmarks.Publish;

/// <summary>Measures the ways to inject into MQTTnet's server alone, without the rest of its suite.</summary>
internal static class InjectCommand
{
    private const int Rounds = 7;

    private static readonly TimeSpan Duration = TimeSpan.FromSeconds(0.7);

    public static int Run()
    {
        using var cast = new PublisherCast(Enum.GetValues<PublishWay>().Where(static way => way >= PublishWay.MqttNetInjectLoop));
        ServerTable.Measure(cast, Rounds, Duration, new SuiteReadings(static _ => { }), everything: true).Write(Console.Out);
        return 0;
    }
}
