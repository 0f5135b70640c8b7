using System.Text.Json;
using BatchKit.TestServers.Certificates;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;
using Npgsql;

namespace BatchKit.Bench.Tests;

/// <summary><c>batchkit-bench run</c> with a user's messages and brokers.</summary>
[Trait("Lane", "night: suites are measured")]
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
    public async Task A_list_goes_over_the_RabbitMQ_that_is_named_by_each_way_and_leaves_nothing_there()
    {
        Assert.SkipWhen(RabbitMqServer.WhyNotInstalled is not null, RabbitMqServer.WhyNotInstalled ?? "");
        await using var broker = await RabbitMqServer.StartOwnAsync();
        await broker.ControlAsync("add_vhost", "a/b");
        await broker.ControlAsync("set_permissions", "-p", "a/b", "guest", ".*", ".*", ".*");

        var run = await RunAsync("run", "dolist", "--rabbitmq", $"{broker.Address}a%2Fb", "--size", "30", "--count", "20", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("| BatchKitOverRabbitMq ", Markdown("dolist"), StringComparison.Ordinal);
        Assert.True(MedianOf("dolist", "DolistBenchmarks.BatchKitOverRabbitMq", "time") > 0);
        var left = $"{await broker.ControlAsync("--silent", "list_exchanges", "-p", "a/b", "name", "type", "auto_delete")}{await broker.ControlAsync("--silent", "list_queues", "-p", "a/b", "name", "auto_delete")}";
        Assert.False(left.Contains("benchmark", StringComparison.OrdinalIgnoreCase), left);
    }

    [Fact]
    public async Task Several_clients_publish_over_TLS_with_a_user_name_and_a_password_that_no_table_shows()
    {
        Assert.SkipWhen(MosquittoServer.WhyNotInstalled is not null, MosquittoServer.WhyNotInstalled ?? "");
        using var authority = new TestAuthority();
        using var certificate = authority.Issue("127.0.0.1");
        var file = _scratch.Write("authority.pem", authority.Certificate.ExportCertificatePem());
        await using var broker = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { Persistence = false, Certificate = certificate, UserName = "me", Password = "a secret" });
        string[] common = ["run", "mqtt", "--ca-file", file, "--count", "600", "--clients", "3", "--rounds", "1"];

        var run = await RunAsync([.. common, "--out", "out", "--server", $"mqtts://me:a%20secret@127.0.0.1:{broker.TlsPort}"]);
        var stranger = await RunAsync([.. common, "--server", $"mqtts://me:wrong@127.0.0.1:{broker.TlsPort}"]);

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("# mqtt: 600 messages of 100 B by 3 clients", Markdown("mqtt"), StringComparison.Ordinal);
        Assert.True(MedianOf("mqtt", "MqttBenchmarks.Scope[Broker=default, QoS=1, Properties=5]", "rate") > 0);
        Assert.DoesNotContain("secret", run.Text + Markdown("mqtt"), StringComparison.Ordinal);
        Assert.Equal((1, $"--server: the broker at 127.0.0.1:{broker.TlsPort} can't be used: It refused the user name and the password: name others, as in mqtt://user:password@host."), (stranger.ExitCode, stranger.Errors.Trim()));
    }

    [Fact]
    public async Task Records_are_echoed_to_as_many_clients_with_as_many_bytes_as_asked()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The load reads with epoll.");

        var run = await RunAsync("run", "playhouse", "--clients", "3", "--size", "40", "--count", "5", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("## 3 connections, 40 B, up to 5 under way on each", Markdown("playhouse"), StringComparison.Ordinal);
        Assert.True(MedianOf("playhouse", "PlayhouseBenchmarks.BatchKit", "rate") > 0);
    }

    [Fact]
    public async Task Tasks_go_through_the_database_that_is_named_and_its_schemas_are_gone_behind_it()
    {
        Assert.SkipWhen(PostgresServer.WhyNotInstalled is not null, PostgresServer.WhyNotInstalled ?? "");
        await using var server = await PostgresServer.StartOwnAsync();

        var run = await RunAsync("run", "rhythm", "--connection", server.ConnectionString, "--size", "40", "--count", "20", "--rounds", "1", "--out", "out");

        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Contains("# rhythm: tasks of 40 B", Markdown("rhythm"), StringComparison.Ordinal);
        Assert.True(MedianOf("rhythm", "RhythmBenchmarks.Drain100[Disk=own]", "rate") > 0);
        await using var source = NpgsqlDataSource.Create(server.ConnectionString);
        await using var schemas = source.CreateCommand("select count(*) from pg_namespace where nspname in ('batchkit', 'rhythm')");
        Assert.Equal(0L, await schemas.ExecuteScalarAsync(TestContext.Current.CancellationToken));

        // A database with tables of BatchKit's is left as it is.
        await using var create = source.CreateCommand("create schema batchkit");
        await create.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        var refused = await RunAsync("run", "rhythm", "--connection", server.ConnectionString);
        Assert.Equal(1, refused.ExitCode);
        Assert.StartsWith("--connection: the database postgres has the schemas that a run makes, empties and drops (batchkit).", refused.Errors, StringComparison.Ordinal);
        Assert.Equal(1L, await schemas.ExecuteScalarAsync(TestContext.Current.CancellationToken));
    }

    private Task<BenchRun> RunAsync(params string[] arguments) => BenchRun.RunAsync(_scratch.Folder, arguments);

    private string Markdown(string suite) => File.ReadAllText(_scratch.In("out", $"{suite}.md"));

    private double MedianOf(string suite, string benchmark, string metric)
    {
        using var json = JsonDocument.Parse(File.ReadAllText(_scratch.In("out", $"{suite}.json")));
        return json.RootElement.EnumerateArray().Single(row => row.GetProperty("benchmark").GetString() == benchmark).GetProperty("medians").GetProperty(metric).GetDouble();
    }
}
