using System.Globalization;
using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Network;

namespace BatchKit.Bench.Tests;

/// <summary>What <c>batchkit-bench run</c> says when it can't run: one line, and no stack trace.</summary>
public sealed class RunErrorTests : IDisposable
{
    private readonly Scratch _scratch = new();

    public void Dispose() => _scratch.Dispose();

    [Theory]
    [InlineData("--size must be a number between 8 and 100000.", "mqtt", "--size", "7")]
    [InlineData("--count must be a number between 1 and 100000.", "dolist", "--count", "0")]
    [InlineData("--clients must be a number between 1 and 60000.", "broadcast", "--clients", "60001")]
    [InlineData("--rounds must be a number between 1 and 1000.", "broadcast", "--rounds", "0")]
    [InlineData("--count must be a number between 1 and 100000.", "dolist", "--count", "many")]
    [InlineData("--rabbitmq must be an address as amqp://host:port.", "dolist", "--rabbitmq", "http://localhost")]
    [InlineData("--server must be an address as mqtt://host:port.", "mqtt", "--server", "localhost")]
    [InlineData("--clients must be a number between 1 and 1000.", "mqtt", "--clients", "0")]
    [InlineData("There is no file gone.pem: give --ca-file a certificate as PEM or DER.", "mqtt", "--ca-file", "gone.pem")]
    [InlineData("--size must be a number between 24 and 16384.", "playhouse", "--size", "23")]
    [InlineData("--count must be a number between 1 and 1000000.", "rhythm", "--count", "0")]
    [InlineData("--connection must be a connection string as Host=localhost;Username=me;Database=empty: ", "rhythm", "--connection", "postgres://localhost")]
    [InlineData("--connection must be a connection string as Host=localhost;Username=me;Database=empty: ", "rhythm", "--connection", "Username=me")]
    [InlineData("--rabbitmq must be an address as amqp://user:password@host:port/vhost: ", "dolist", "--rabbitmq", "amqp://localhost/one/two")]
    [InlineData("100000 messages of 1000 bytes are more than the 8388608 bytes that a list may have.", "dolist", "--count", "100000", "--size", "1000")]
    [InlineData("--server: a password needs a user name, as in mqtt://user:password@host.", "mqtt", "--server", "mqtt://:secret@localhost")]
    [InlineData("Required command was not provided.")]
    public async Task A_wrong_option_ends_with_2(string error, params string[] arguments)
    {
        var run = await BenchRun.RunAsync(_scratch.Folder, ["run", .. arguments]);

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.StartsWith(error, run.Errors.Trim(), StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", run.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("mqtt", "--server", "mqtt://127.0.0.1:{0}")]
    [InlineData("mqtt", "--server", "mqtts://127.0.0.1:{0}")]
    [InlineData("dolist", "--rabbitmq", "amqp://127.0.0.1:{0}")]
    [InlineData("rhythm", "--connection", "Host=127.0.0.1;Port={0};Username=me;Password=secret")]
    public async Task A_broker_that_is_down_ends_with_1_and_is_named_with_its_option(string suite, string option, string value)
    {
        var port = FreePort.Take(1)[0];

        var run = await BenchRun.RunAsync(_scratch.Folder, "run", suite, option, string.Format(CultureInfo.InvariantCulture, value, port));

        Assert.True(run.ExitCode == 1, run.Text);
        Assert.StartsWith($"{option}: ", run.Errors, StringComparison.Ordinal);
        Assert.Contains($"127.0.0.1:{port} can't be ", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Fact]
    public async Task A_broker_that_cannot_be_found_is_named_with_the_port_that_it_would_have()
    {
        var run = await BenchRun.RunAsync(_scratch.Folder, "run", "dolist", "--rabbitmq", "amqp://batchkit.invalid");

        Assert.True(run.ExitCode == 1, run.Text);
        Assert.StartsWith("--rabbitmq: RabbitMQ at batchkit.invalid:5672 can't be used: ", run.Errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_MQTT_server_that_accepts_and_never_answers_ends_with_1_and_is_named_with_its_option()
    {
        using var silent = new TcpListener(IPAddress.Loopback, 0);
        silent.Start();
        var server = $"{silent.LocalEndpoint}";

        var runs = await Task.WhenAll(new[] { "mqtt", "mqtts" }.Select(scheme => BenchRun.RunAsync(_scratch.Folder, "run", "mqtt", "--server", $"{scheme}://{server}")));

        Assert.All(runs, run =>
        {
            Assert.True(run.ExitCode == 1, run.Text);
            Assert.StartsWith($"--server: the broker at {server} can't be used: ", run.Errors, StringComparison.Ordinal);
            Assert.Single(run.Errors.Trim().Split('\n'));
        });
    }

    [Fact]
    public async Task A_folder_that_cannot_be_written_is_named_before_anything_is_measured()
    {
        _scratch.Write("file", "");

        var run = await BenchRun.RunAsync(_scratch.Folder, "run", "playhouse", "--out", "file");

        Assert.Equal(1, run.ExitCode);
        Assert.StartsWith("--out: file can't be written: ", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }
}
