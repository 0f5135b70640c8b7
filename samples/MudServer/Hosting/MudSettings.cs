using System.Globalization;
using System.Net;
using MudServer.Game;
using static Shared.SettingValue;

namespace MudServer.Hosting;

/// <summary>All settings, in the order of the help.</summary>
internal static class MudSettings
{
    public static IReadOnlyList<Setting<MudOptions>> All { get; } =
    [
        new("transport", "local|memory|masstransit|rabbitmq", "How output gets from the game to the sockets; memory by default, rabbitmq where a broker is named.",
            (options, value) => options.RequestedTransport = Choice<MudTransport>(value)),
        new("confirm", "<milliseconds>", "How long the simulated broker (--transport memory) takes to confirm a send; 0.3 by default.",
            (options, value) => options.ConfirmTime = Milliseconds(value)),
        new("role", "all|game|gateway", "all: one process. game or gateway: one of two processes with RabbitMQ between them.",
            (options, value) => options.Role = Choice<MudRole>(value)),
        new("buffering", "on|off", "off sends each message alone and waits for it; on by default.",
            (options, value) => options.IsBuffered = Switch(value)),
        new("port", "<number>", "The telnet port; 4201 by default, 0 for a free one.", (options, value) => options.Port = Number(value, 0, 65_535)),
        new("http-port", "<number>", "The port of the web page, /stats and /health; 4202 by default, 4203 for the game.",
            (options, value) => options.RequestedHttpPort = Number(value, 0, 65_535)),
        new("address", "<ip>", "The address that both listen on; 127.0.0.1 by default, 0.0.0.0 for all addresses.",
            (options, value) => options.Address = Address(value)),
        new("node", "<number>", "The node number of this process; 1 by default, 2 for a gateway. Each process needs its own.",
            (options, value) => options.RequestedNode = Number(value, 0, OutputHandle.MaxNode)),
        new("game-node", "<number>", "The node number of the game, for a gateway; 1 by default.",
            (options, value) => options.GameNode = Number(value, 0, OutputHandle.MaxNode)),
        new("shard", "<number>/<count>", "For a game that shares the players with others, by their names: 1/2 and 2/2 are two games.",
            (options, value) => options.Shard = Shards.Parse(value)),
        new("shards", "<count>", "For a gateway: how many games share the players; 1 by default.", (options, value) => options.RequestedShards = Number(value, 1, 16)),
        new("drain", "<seconds>", "How long a gateway that stops takes to send its clients to another one, 0 to 600; 5 by default.",
            (options, value) => options.DrainTime = TimeSpan.FromSeconds(Number(value, 0, 600))),
        new("away", "<seconds>", "How long a game keeps a player that a gateway sent away, 1 to 3600; 60 by default.",
            (options, value) => options.AwayLimit = TimeSpan.FromSeconds(Number(value, 1, 3600))),
        new("rabbitmq", "amqp://..", "RabbitMQ: amqp://user:password@host:port/virtualhost", (options, value) => options.Broker.SetUri(Amqp(value)), IsSecret: true),
        new("rabbitmq-host", "<name>", "The host of RabbitMQ; localhost by default.", (options, value) => options.Broker.SetHost(Text(value))),
        new("rabbitmq-port", "<number>", "The port of RabbitMQ; 5672 by default.", (options, value) => options.Broker.SetPort(Number(value, 1, 65_535))),
        new("rabbitmq-user", "<name>", "The user name; guest by default.", (options, value) => options.Broker.SetUserName(Text(value))),
        new("rabbitmq-password", "<password>", "The password; guest by default. Set it in MUD_RABBITMQ_PASSWORD to keep it off the command line.",
            (options, value) => options.Broker.SetPassword(Text(value)), IsSecret: true),
        new("rabbitmq-virtual-host", "<name>", "The virtual host; / by default.", (options, value) => options.Broker.SetVirtualHost(Text(value))),
        new("prefix", "<name>", "The start of the names of queues and exchanges; batchkit-mud by default.", (options, value) => options.Prefix = Text(value)),
        new("go-ahead", "on|off", "on ends prompts with telnet's GA; off is for nc, which would show its bytes.",
            (options, value) => options.SendsGoAhead = Switch(value)),
        new("max-connections", "<number>", "The most clients at once; 1000 by default. Others are refused.",
            (options, value) => options.MaxConnections = Number(value, 1, 100_000)),
        new("max-connections-per-address", "<number>", "The most clients of one address; a fiftieth of --max-connections by default.",
            (options, value) => options.MaxConnectionsPerAddress = Number(value, 1, 100_000)),
    ];

    /// <summary>Formats a choice as it is written on the command line.</summary>
    public static string Word<T>(T value)
        where T : struct, Enum => value.ToString().ToLowerInvariant();

    private static T Choice<T>(string value)
        where T : struct, Enum
    {
        foreach (var choice in Enum.GetValues<T>())
        {
            if (Word(choice).Equals(value, StringComparison.OrdinalIgnoreCase))
                return choice;
        }

        throw new FormatException($"takes one of {string.Join(", ", Enum.GetValues<T>().Select(Word))}");
    }

    private static TimeSpan Milliseconds(string value) =>
        double.TryParse(value, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out var milliseconds) && milliseconds <= 1000
            ? TimeSpan.FromMilliseconds(milliseconds)
            : throw new FormatException("takes milliseconds from 0 to 1000, such as 0.3");

    private static IPAddress Address(string value) =>
        IPAddress.TryParse(value, out var address) ? address : throw new FormatException("takes an IP address, such as 127.0.0.1 or 0.0.0.0");

    private static Uri Amqp(string value) =>
        Uri.TryCreate(value, UriKind.Absolute, out var uri) && uri.Scheme == "amqp" && uri.Host.Length > 0
            ? uri
            : throw new FormatException("takes an address such as amqp://guest:guest@localhost:5672/");
}
