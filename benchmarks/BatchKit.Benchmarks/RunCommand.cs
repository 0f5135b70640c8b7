using System.CommandLine;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Configuration;
using BatchKit.Benchmarks.Dolist;
using BatchKit.Benchmarks.Echo;
using BatchKit.Benchmarks.EchoServers;
using BatchKit.Benchmarks.Fanout;
using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.Measuring;
using BatchKit.Benchmarks.Publish;
using BatchKit.Benchmarks.RawMqtt;
using BatchKit.Benchmarks.Rhythm;
using BatchKit.Benchmarks.RhythmWays;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.RabbitMQ;
using Npgsql;

namespace BatchKit.Benchmarks;

/// <summary><c>run suite</c>: measures a suite with the user's messages, on the user's machine and broker.</summary>
internal static class RunCommand
{
    private const int MqttPort = 1883;
    private const int MqttTlsPort = 8883;

    // What one message may have on a broker of RabbitMQ's with its defaults: 16 MiB, and the library's own bytes.
    private const int MaxListBytes = 8 * 1024 * 1024;

    private static readonly Option<int?> Rounds = ParsedOptions.Number("--rounds", "How often everything is measured; the gates' own number when left out.", 1, 1000);

    private static readonly Option<string?> Out = new("--out") { Description = "Writes <suite>.md and <suite>.json into this folder.", HelpName = "folder" };

    public static Command Create() => new("run", "Measures a suite of BatchKit with your messages, on your machine and your broker.")
    {
        CreateDolist(), CreateMqtt(), CreateBroadcast(), CreatePlayhouse(), CreateRhythm(),
    };

    private static Command CreateDolist()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 2 to 100,000; {Lines.DefaultLineBytes} when left out.", 2, 100_000);
        var count = ParsedOptions.Number("--count", $"Messages of a list, 1 to 100,000; {Lines.DefaultCount} when left out. A list has at most 8 MiB.", 1, 100_000);
        var address = ParsedOptions.Address("--rabbitmq", "A broker, as amqp://user:password@host:port/vhost. The installed one is started when left out.", "amqp");
        var command = new Command("dolist", "A list of messages over RabbitMQ: awaited, in flight, by hand and by BatchKit.") { size, count, address, Rounds, Out };
        command.SetAction(async (parsed, cancellationToken) =>
        {
            var (bytes, messages) = (parsed.GetValue(size) ?? Lines.DefaultLineBytes, parsed.GetValue(count) ?? Lines.DefaultCount);
            if ((long)bytes * messages > MaxListBytes)
                throw new UsageException($"{messages} messages of {bytes} bytes are more than the {MaxListBytes} bytes that a list may have.");
            if (parsed.GetValue(address) is { } given)
                await NamedServers.UseRabbitMqAsync(address.Name, given, cancellationToken);
            else if (RabbitMqServer.WhyMissing is { } reason)
                throw new UsageException($"{reason} Or name a broker with --rabbitmq.");
            RunSettings.Set(bytes, messages);
            return await RunAsync("dolist", $"{messages} messages of {bytes} B", parsed, static suite => suite with { Classes = [nameof(DolistBenchmarks)] }, new BenchmarkDotNetRunner());
        });
        return command;
    }

    private static Command CreateMqtt()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 8 to 100,000; {PublishShape.DefaultPayloadBytes} when left out.", 8, 100_000);
        var count = ParsedOptions.Number("--count", "Messages of a measurement, 1 to 10,000,000; 20,000 when left out. Rows that await each take as many round trips.", 1, 10_000_000);
        var address = ParsedOptions.Address(
            "--server", "A broker, as mqtt://user:password@host:port, or mqtts:// for TLS. Messages go to its topics bench/#. The installed Mosquitto is started when left out.", "mqtt", "mqtts");
        var clients = ParsedOptions.Number("--clients", "Clients that publish side by side, 1 to 1,000; 1 when left out. The paced rows have one.", 1, 1_000);
        var authority = new Option<string?>("--ca-file") { Description = "The authority of the broker's certificate, as a file; the system's when left out.", HelpName = "file" };
        var command = new Command("mqtt", "Messages to an MQTT broker and on to a subscriber, by the way they are published. Needs Linux.") { size, count, clients, address, authority, Rounds, Out };
        command.SetAction((parsed, _) =>
        {
            var (bytes, messages, server) = (parsed.GetValue(size) ?? PublishShape.DefaultPayloadBytes, parsed.GetValue(count) ?? 20_000, parsed.GetValue(address));
            if (server?.UserInfo.StartsWith(':') == true)
                throw new UsageException($"{address.Name}: a password needs a user name, as in mqtt://user:password@host.");
            server = server is { Port: < 0 } ? new UriBuilder(server) { Port = server.Scheme == "mqtts" ? MqttTlsPort : MqttPort }.Uri : server;
            var (publishers, file) = (parsed.GetValue(clients) ?? 1, parsed.GetValue(authority));
            if (file is not null && !File.Exists(file))
                throw new UsageException($"There is no file {file}: give --ca-file a certificate as PEM or DER.");
            RunSettings.Set(bytes, messages, publishers, server, file);
            RequireLinuxAnd(server is null ? MosquittoServer.WhyNotInstalled : null, "Or name a broker with --server.");
            if (server is not null)
                NamedServers.ReachMqtt(address.Name, server);
            return RunAsync("mqtt", $"{messages} messages of {bytes} B by {publishers} {(publishers == 1 ? "client" : "clients")}", parsed, static suite => suite, new MqttBenchmarks { IsOneBroker = true });
        });
        return command;
    }

    private static Command CreateBroadcast()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a message, 80 to 100,000; {Payload.DefaultBytes} when left out.", 80, 100_000);
        var count = ParsedOptions.Number("--count", "Broadcasts of a round, 1 to 10,000; the gates' own number when left out.", 1, 10_000);
        var clients = ParsedOptions.Number("--clients", "Subscribers, 1 to 60,000; 10,000 when left out. The server and the clients each need a file for each of them.", 1, 60_000);
        var command = new Command("broadcast", "One message to many subscribers on this machine, over TCP and WebSockets, beside Kestrel and SignalR. Needs Linux.") { size, count, clients, Rounds, Out };
        command.SetAction((parsed, _) =>
        {
            var (bytes, subscribers, broadcasts) = (parsed.GetValue(size) ?? Payload.DefaultBytes, parsed.GetValue(clients) ?? 10_000, parsed.GetValue(count));
            RunSettings.Set(bytes, count: broadcasts ?? 0);
            return RunAsync(
                "broadcast", $"{bytes} B to {subscribers} subscribers", parsed, suite => suite with { Iterations = broadcasts ?? suite.Iterations },
                new BroadcastBenchmarks { Sizes = [subscribers], IsMixed = false });
        });
        return command;
    }

    private static Command CreatePlayhouse()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a record, 24 to 16,384; {Records.DefaultBytes} when left out.", 24, 16_384);
        var count = ParsedOptions.Number("--count", "Records that each client may have under way, 1 to 100,000; 1000 when left out.", 1, 100_000);
        var clients = ParsedOptions.Number("--clients", "Clients of each server, 1 to 10,000; 100 when left out.", 1, 10_000);
        var command = new Command("playhouse", "Echoed records on this machine: sent back one by one, by Kestrel's pipes and by BatchKit, beside a loop in C. Needs Linux.") { size, count, clients, Rounds, Out };
        command.SetAction((parsed, _) =>
        {
            var (bytes, window, connections) = (parsed.GetValue(size) ?? Records.DefaultBytes, parsed.GetValue(count) ?? 1000, parsed.GetValue(clients) ?? 100);
            RunSettings.Set(bytes, window);
            return RunAsync(
                "playhouse", $"{bytes} B, {connections} clients, up to {window} under way on each", parsed, static suite => suite,
                new PlayhouseBenchmarks { Connections = connections, Window = window, LongRunDuration = TimeSpan.Zero });
        });
        return command;
    }

    private static Command CreateRhythm()
    {
        var size = ParsedOptions.Number("--size", $"Bytes of a task, 16 to 8,000; {TaskPayload.DefaultBytes} when left out.", 16, 8_000);
        var count = ParsedOptions.Number("--count", "Tasks of a measurement, 1 to 1,000,000; as many as take a round's time when left out.", 1, 1_000_000);
        var connection = new Option<string?>("--connection")
        {
            Description = "A database of PostgreSQL, as Host=localhost;Username=me;Database=empty. The run makes the schemas batchkit and rhythm there, and drops them. The installed server is started when left out.",
            HelpName = "connection string",
        };
        var command = new Command("rhythm", "Tasks into a queue in PostgreSQL and out of it: one by one, by hand and by BatchKit. Needs Linux.") { size, count, connection, Rounds, Out };
        command.SetAction(async (parsed, cancellationToken) =>
        {
            var (bytes, tasks, database) = (parsed.GetValue(size) ?? TaskPayload.DefaultBytes, parsed.GetValue(count), parsed.GetValue(connection));
            RunSettings.Set(bytes, tasks ?? 0);
            RequireLinuxAnd(database is null ? PostgresServer.WhyNotInstalled : null, "Or name a database with --connection.");
            if (database is not null)
                await NamedServers.RequireEmptyDatabaseAsync(connection.Name, database, RhythmStage.Schemas, cancellationToken);
            try
            {
                return await RunAsync("rhythm", $"tasks of {bytes} B", parsed, static suite => suite, new RhythmBenchmarks { IsOneServer = true, ConnectionString = database, Tasks = tasks });
            }
            catch (Exception failure) when (failure is NpgsqlException or OutputDeliveryException)
            {
                throw new InvalidOperationException($"{(database is null ? "PostgreSQL" : connection.Name)}: {NamedServers.MessageOf(failure)}", failure);
            }
        });
        return command;
    }

    // A server that one names makes no difference to another system.
    private static void RequireLinuxAnd(string? whyMissing, string otherwise)
    {
        if ((Machine.WhyUnfit ?? (whyMissing is null ? null : $"{whyMissing} {otherwise}")) is { } reason)
            throw new UsageException(reason);
    }

    private static async Task<int> RunAsync(string name, string settings, ParseResult parsed, Func<GateSuite, GateSuite> change, ISuiteRunner runner)
    {
        OutPath.Require(parsed.GetValue(Out));
        var own = GateFile.Read()[name];
        var suite = change(own with { Gates = [], Rounds = parsed.GetValue(Rounds) ?? own.Rounds });
        var readings = await SuiteMeasuring.RunAsync(runner, suite, everything: true);
        RunReport.Write(name, settings, readings, parsed.GetValue(Out));
        return ExitCodes.Done;
    }
}
