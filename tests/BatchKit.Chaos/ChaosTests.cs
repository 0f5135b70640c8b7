using System.Globalization;
using BatchKit.Chaos.Brokers;
using BatchKit.Chaos.Nodes;
using BatchKit.Chaos.Runs;

namespace BatchKit.Chaos;

/// <summary>What the guarantees table promises, under random faults of processes, connections and brokers.</summary>
[Trait("Lane", "faults: faults come at random")]
public sealed class ChaosTests(ITestOutputHelper log)
{
    /// <summary>How many seconds faults begin, over each transport; 35 unless this environment variable says otherwise. With 0 the runs are skipped.</summary>
    private const string SecondsVariable = "BATCHKIT_TEST_CHAOS_SECONDS";

    /// <summary>The seed of the faults; one at random unless this environment variable says otherwise.</summary>
    private const string SeedVariable = "BATCHKIT_TEST_SEED";

    private static TimeSpan Length => TimeSpan.FromSeconds(Read(SecondsVariable, 35));

    [Fact]
    public Task Over_RabbitMQ_random_faults_break_no_guarantee() => RunAsync(() => RabbitMqBroker.CreateAsync(NodeHost.RabbitMq));

    [Fact]
    public Task Over_MassTransit_random_faults_break_no_guarantee() => RunAsync(() => RabbitMqBroker.CreateAsync(NodeHost.MassTransit));

    [Fact]
    public Task Over_MQTT_random_faults_break_no_guarantee() => RunAsync(MosquittoBroker.CreateAsync);

    [Fact]
    public Task Over_PostgreSQL_random_faults_break_no_guarantee() => RunAsync(PostgresBroker.CreateAsync);

    private async Task RunAsync(Func<Task<ChaosBroker>> start)
    {
        Assert.SkipWhen(Length == TimeSpan.Zero, $"{SecondsVariable} is 0.");
        var seed = Read(SeedVariable, Random.Shared.Next());
        log.WriteLine($"{SeedVariable}={seed} {SecondsVariable}={Length.TotalSeconds}");
        await using var broker = await start();

        var report = await ChaosRun.RunAsync(broker, seed, Length);

        log.WriteLine(report.Summary);
        report.Close();
        Assert.True(report.IsClean, $"{SeedVariable}={seed} {SecondsVariable}={Length.TotalSeconds}{Environment.NewLine}{report.Complaint}");
    }

    private static int Read(string variable, int usual) => int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out var given) ? given : usual;
}
