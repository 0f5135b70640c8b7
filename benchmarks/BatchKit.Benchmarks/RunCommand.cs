using System.CommandLine;
using System.Net.Sockets;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Dolist;
using BatchKit.Benchmarks.Fanout;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.TestServers.RabbitMQ;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;

namespace BatchKit.Benchmarks;

/// <summary><c>run suite</c>: measures a suite with the user's messages, on the user's machine and broker.</summary>
internal static class RunCommand
{
    private const int MqttPort = 1883;

    // What one message may have on a broker of RabbitMQ's with its defaults: 16 MiB, and the library's own bytes.
    private const int MaxListBytes = 8 * 1024 * 1024;

    private static readonly Option<int?> Rounds = ParsedOptions.Number("--rounds", "How often everything is measured; the gates' own number when left out.", 1, 1000);

    private static readonly Option<string?> Out = new("--out") { Description = "Writes <suite>.md and <suite>.json into this folder.", HelpName = "folder" };

    public static Command Create() => new("run", "Measures a suite of BatchKit with your messages, on your machine and your broker.") { CreateDolist(), CreateMqtt(), CreateBroadcast() };

    private static Command CreateDolist()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 2 to 100,000; {Lines.DefaultLineBytes} when left out.", 2, 100_000);
        var count = ParsedOptions.Number("--count", $"Messages of a list, 1 to 100,000; {Lines.DefaultCount} when left out. A list has at most 8 MiB.", 1, 100_000);
        var address = ParsedOptions.Address("--rabbitmq", "amqp", "A broker, as amqp://user:password@host:port/vhost. The installed one is started when left out.");
        var command = new Command("dolist", "A list of messages over RabbitMQ: awaited, in flight, by hand and by BatchKit.") { size, count, address, Rounds, Out };
        command.SetAction(async (parsed, cancellationToken) =>
        {
            var (bytes, messages) = (parsed.GetValue(size) ?? Lines.DefaultLineBytes, parsed.GetValue(count) ?? Lines.DefaultCount);
            if ((long)bytes * messages > MaxListBytes)
                throw new UsageException($"{messages} messages of {bytes} bytes are more than the {MaxListBytes} bytes that a list may have.");
            if (parsed.GetValue(address) is { } given)
                await UseBrokerAsync(given, cancellationToken);
            else if (RabbitMqServer.WhyMissing is { } reason)
                throw new UsageException($"{reason} Or name a broker with --rabbitmq.");
            RunSettings.Set(bytes, messages);
            return await RunAsync("dolist", $"{messages} messages of {bytes} B", parsed, static suite => suite with { Classes = [nameof(DolistBenchmarks)] }, new BenchmarkDotNetRunner(), cancellationToken);
        });
        return command;
    }

    private static Command CreateMqtt()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 8 to 100,000; {PublishShape.DefaultPayloadBytes} when left out.", 8, 100_000);
        var count = ParsedOptions.Number("--count", "Messages of a measurement, 1 to 10,000,000; 20,000 when left out.", 1, 10_000_000);
        var address = ParsedOptions.Address(
            "--server", "mqtt", "A broker that takes clients without a password, as mqtt://host:port. Messages go to its topics bench/#. The installed Mosquitto is started when left out.");
        var command = new Command("mqtt", "Messages to an MQTT broker and on to a subscriber, by the way they are published.") { size, count, address, Rounds, Out };
        command.SetAction(async (parsed, cancellationToken) =>
        {
            var (bytes, messages, server) = (parsed.GetValue(size) ?? PublishShape.DefaultPayloadBytes, parsed.GetValue(count) ?? 20_000, parsed.GetValue(address));
            server = server is { Port: < 0 } ? new UriBuilder(server) { Port = MqttPort }.Uri : server;
            RunSettings.Set(bytes, messages, server);
            if (MqttBenchmarks.WhyUnfit is { } reason)
                throw new UsageException(server is null ? $"{reason}. Or name a broker with --server." : $"{reason}.");
            if (server is not null)
                await ReachAsync(server, cancellationToken);
            return await RunAsync("mqtt", $"{messages} messages of {bytes} B", parsed, static suite => suite, new MqttBenchmarks { IsOneBroker = true }, cancellationToken);
        });
        return command;
    }

    private static Command CreateBroadcast()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 80 to 100,000; {Payload.DefaultBytes} when left out.", 80, 100_000);
        var count = ParsedOptions.Number("--count", "Broadcasts of a round, 1 to 10,000; the gates' own number when left out.", 1, 10_000);
        var clients = ParsedOptions.Number("--clients", "Subscribers, 1 to 60,000; 10,000 when left out. The server and the clients each need a file for each of them.", 1, 60_000);
        var command = new Command("broadcast", "One message to many subscribers on this machine, over TCP and WebSockets, beside Kestrel and SignalR. Needs Linux.") { size, count, clients, Rounds, Out };
        command.SetAction((parsed, cancellationToken) =>
        {
            var (bytes, subscribers, broadcasts) = (parsed.GetValue(size) ?? Payload.DefaultBytes, parsed.GetValue(clients) ?? 10_000, parsed.GetValue(count));
            RunSettings.Set(bytes, count: broadcasts ?? 0);
            return RunAsync(
                "broadcast", $"{bytes} B to {subscribers} subscribers", parsed, suite => suite with { Iterations = broadcasts ?? suite.Iterations },
                new BroadcastBenchmarks { Sizes = [subscribers], IsMixed = false }, cancellationToken);
        });
        return command;
    }

    private static async Task<int> RunAsync(string name, string settings, ParseResult parsed, Func<GateSuite, GateSuite> change, ISuiteRunner runner, CancellationToken cancellationToken)
    {
        var own = GateFile.Read()[name];
        var suite = change(own with { Gates = [], Rounds = parsed.GetValue(Rounds) ?? own.Rounds });

        // At Ctrl-C the program ends, and its children with it, because their standard input does.
        var readings = await Task.Run(() => runner.Measure(suite, everything: true), cancellationToken).WaitAsync(cancellationToken);
        RunReport.Write(name, settings, readings, parsed.GetValue(Out));
        return ExitCodes.Done;
    }

    private static async Task UseBrokerAsync(Uri address, CancellationToken cancellationToken)
    {
        try
        {
            await using var connection = await new ConnectionFactory { Uri = address }.CreateConnectionAsync(cancellationToken);
        }
        catch (BrokerUnreachableException unreachable)
        {
            throw new InvalidOperationException($"RabbitMQ at {address.Host}:{address.Port} can't be used: {(unreachable.InnerException ?? unreachable).Message}", unreachable);
        }

        Environment.SetEnvironmentVariable(RabbitMqServer.AddressVariable, address.ToString());
    }

    private static async Task ReachAsync(Uri server, CancellationToken cancellationToken)
    {
        using var client = new TcpClient();
        try
        {
            await client.ConnectAsync(server.Host, server.Port, cancellationToken);
        }
        catch (SocketException unreachable)
        {
            throw new InvalidOperationException($"The broker at {server.Host}:{server.Port} can't be reached: {unreachable.Message}.", unreachable);
        }
    }
}
