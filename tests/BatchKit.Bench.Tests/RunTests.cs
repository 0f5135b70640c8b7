using System.Text.Json;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.Bench.Tests;

/// <summary><c>batchkit-bench run</c> with a user's messages and brokers.</summary>
[Trait("Lane", "slow: suites are measured")]
public sealed class RunTests : IDisposable
{
    private readonly Scratch _scratch = new();

    public void Dispose() => _scratch.Dispose();

    [Fact]
    public async Task Broadcasts_go_to_as_many_clients_with_as_many_bytes_as_asked()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The load reads with epoll.");

        var run = await RunAsync("run", "broadcast", "--clients", "100", "--size", "80", "--count", "2", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("# broadcast: 80 B to 100 subscribers", Markdown("broadcast"), StringComparison.Ordinal);
        Assert.Contains("| BatchKitTcp | 100 | 2 |", Markdown("broadcast"), StringComparison.Ordinal);
        Assert.True(MedianOf("broadcast", "BroadcastBenchmarks.BatchKitTcp[Subscribers=100]", "lastByte") > 0);
    }

    [Fact]
    public async Task Messages_of_any_size_go_over_the_MQTT_broker_that_is_named()
    {
        Assert.SkipWhen(MosquittoServer.WhyNotInstalled is not null, MosquittoServer.WhyNotInstalled ?? "");
        await using var broker = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Persistence = false });

        var run = await RunAsync("run", "mqtt", "--server", $"mqtt://localhost:{broker.Port}", "--size", "300", "--count", "1500", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains($"## mqtt://localhost:{broker.Port}/, QoS 1, 5 user properties", Markdown("mqtt"), StringComparison.Ordinal);
        Assert.True(MedianOf("mqtt", "MqttBenchmarks.PublishMany[Broker=default, QoS=1, Properties=5]", "rate") > 0);
    }

    [Fact]
    public async Task A_list_goes_over_the_RabbitMQ_that_is_named_by_each_way()
    {
        Assert.SkipWhen(RabbitMqServer.WhyMissing is not null, RabbitMqServer.WhyMissing ?? "");
        await using var broker = await RabbitMqServer.ConnectOrStartAsync();

        var run = await RunAsync("run", "dolist", "--rabbitmq", $"{broker.Address}", "--size", "30", "--count", "20", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("| BatchKitOverRabbitMq ", Markdown("dolist"), StringComparison.Ordinal);
        Assert.True(MedianOf("dolist", "DolistBenchmarks.BatchKitOverRabbitMq", "time") > 0);
    }

    private Task<BenchRun> RunAsync(params string[] arguments) => BenchRun.RunAsync(_scratch.Folder, arguments);

    private string Markdown(string suite) => File.ReadAllText(_scratch.In("out", $"{suite}.md"));

    private double MedianOf(string suite, string benchmark, string metric)
    {
        using var json = JsonDocument.Parse(File.ReadAllText(_scratch.In("out", $"{suite}.json")));
        return json.RootElement.EnumerateArray().Single(row => row.GetProperty("benchmark").GetString() == benchmark).GetProperty("medians").GetProperty(metric).GetDouble();
    }
}
