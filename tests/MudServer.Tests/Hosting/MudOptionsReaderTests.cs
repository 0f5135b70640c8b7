using System.Net;
using Microsoft.Extensions.Configuration;
using MudServer.Hosting;
using Shared;

namespace MudServer.Tests.Hosting;

public sealed class MudOptionsReaderTests
{
    [Fact]
    public void Without_arguments_it_is_one_process_without_a_broker()
    {
        var options = Read([]);

        Assert.Equal(MudRole.All, options.Role);
        Assert.Equal(MudTransport.Memory, options.Transport);
        Assert.Equal("a simulated broker that confirms a send after 0.3 ms", options.Hop);
        Assert.True(options.IsBuffered);
        Assert.Equal((IPAddress.Loopback, 4201, 4202, 1), (options.Address, options.Port, options.HttpPort, options.Node));
        Assert.False(options.UsesRabbitMq);
    }

    [Fact]
    public void The_command_line_wins_over_the_environment_and_that_over_the_file()
    {
        string[] environment = ["MUD_HTTP_PORT=2", "MUD_PORT=2"];
        string[] file = ["Port=3", "HttpPort=3", "Node=3"];

        var options = Read(["--port", "1"], environment, file);

        Assert.Equal((1, 2, 3), (options.Port, options.HttpPort, options.Node));
    }

    [Theory]
    [InlineData("--role", "game", 1, 4203)]
    [InlineData("--role", "gateway", 2, 4202)]
    public void Each_of_two_processes_has_its_own_number_and_the_broker_between_them(string name, string role, int node, int httpPort)
    {
        var options = Read([name, role]);

        Assert.Equal(MudTransport.RabbitMq, options.Transport);
        Assert.True(options.UsesRabbitMq);
        Assert.Equal((node, httpPort), (options.Node, options.HttpPort));
    }

    [Fact]
    public void Several_games_have_numbers_and_ports_of_their_own()
    {
        var (second, gateway) = (Read(["--role=game", "--shard=2/3"]), Read(["--role=gateway", "--shards=3"]));

        Assert.Equal((2, 4204, 3), (second.Node, second.HttpPort, second.ShardCount));
        Assert.Equal((4, 3), (gateway.Node, gateway.ShardCount));
    }

    [Fact]
    public void One_process_simulates_a_broker_until_one_is_named()
    {
        Assert.Equal(MudTransport.RabbitMq, Read([], ["MUD_RABBITMQ=amqp://broker"]).Transport);
        Assert.Equal("RabbitMQ", Read(["--rabbitmq-host=here"]).Hop);
        Assert.Equal(MudTransport.Memory, Read(["--rabbitmq-host=here", "--transport=memory"]).Transport);
    }

    [Fact]
    public void MassTransit_is_in_memory_until_a_broker_is_named()
    {
        Assert.False(Read(["--transport=masstransit"]).UsesRabbitMq);
        Assert.True(Read(["--transport=masstransit", "--rabbitmq-host=here"]).UsesRabbitMq);
        Assert.True(Read(["--transport=masstransit", "--role=game"]).UsesRabbitMq);
    }

    [Fact]
    public void A_broker_is_named_by_its_address_and_the_parts_win()
    {
        var broker = Read(["--rabbitmq", "amqp://ana:p%40ss@broker:5673/isle", "--rabbitmq-user", "bob"]).Broker;

        Assert.Equal(("broker", 5673, "bob", "p@ss", "isle"), (broker.Host, broker.Port, broker.UserName, broker.Password, broker.VirtualHost));
    }

    [Fact]
    public void A_password_may_start_with_an_at_sign() => Assert.Equal("@secret", Read(["--rabbitmq-password", "@secret"]).Broker.Password);

    [Theory]
    [InlineData("'--prot'", "--prot", "1")]
    [InlineData("'extra'", "extra")]
    [InlineData("'--port'", "--port")]
    [InlineData("--port takes a number", "--port", "--node")]
    [InlineData("--confirm takes milliseconds from 0 to 1000, such as 0.3, and \"-1\" is not", "--confirm=-1")]
    [InlineData("--port takes a number from 0 to 65535, and \"70000\" is not", "--port", "70000")]
    [InlineData("--port takes a number", "--port=-1")]
    [InlineData("'--port'", "--port=1", "--port=2")]
    [InlineData("--transport takes one of local, memory, masstransit, rabbitmq", "--transport", "pigeon")]
    [InlineData("--transport takes one of", "--transport", "1")]
    [InlineData("--buffering takes on or off", "--buffering", "maybe")]
    [InlineData("--address takes an IP address", "--address", "here")]
    [InlineData("--rabbitmq takes an address", "--rabbitmq", "http://x")]
    [InlineData("--role game is one of two processes", "--role", "game", "--transport", "memory")]
    [InlineData("both 1", "--role", "gateway", "--node", "1")]
    [InlineData("--node is 7 and --game-node is 1", "--role", "game", "--node", "7")]
    [InlineData("--shard takes a shard and the number of shards, from 1/1 to 16/16, such as 1/2 for the first of two, and \"3/2\" is not", "--role", "game", "--shard", "3/2")]
    [InlineData("--drain takes a number from 0 to 600", "--role", "gateway", "--drain", "x")]
    [InlineData("--away takes a number from 1 to 3600", "--role", "game", "--away", "0")]
    [InlineData("such as 1/2 for the first of two, and \"x\" is not", "--role", "game", "--shard", "x")]
    [InlineData("such as 1/2 for the first of two, and \"0/2\" is not", "--role", "game", "--shard", "0/2")]
    [InlineData("such as 1/2 for the first of two, and \"1/99\" is not", "--role", "game", "--shard", "1/99")]
    [InlineData("use it with --role game", "--shard", "1/2")]
    [InlineData("A gateway takes the number of games, --shards 2", "--role", "gateway", "--shard", "1/2")]
    [InlineData("--shards is for --role gateway", "--role", "game", "--shards", "2")]
    [InlineData("Several games need --transport rabbitmq, and it is masstransit", "--role", "game", "--shard", "1/2", "--transport", "masstransit")]
    [InlineData("2 games have those from 1 to 2", "--role", "gateway", "--shards", "2", "--node", "2")]
    [InlineData("shard 2 has the number 2: leave --node out", "--role", "game", "--shard", "2/2", "--node", "1")]
    public void What_it_does_not_know_is_refused_by_name(string expected, params string[] arguments)
    {
        var exception = Assert.Throws<UsageException>(() => Read(arguments));

        Assert.Contains(expected, exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_bad_value_of_the_environment_is_named_by_its_variable()
    {
        var exception = Assert.Throws<UsageException>(() => Read([], ["MUD_HTTP_PORT=x"]));

        Assert.StartsWith("MUD_HTTP_PORT takes a number", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void An_address_with_a_password_is_not_repeated()
    {
        var exception = Assert.Throws<UsageException>(() => Read(["--rabbitmq", "ana:secret@broker"]));

        Assert.DoesNotContain("secret", exception.Message, StringComparison.Ordinal);
    }

    private static MudOptions Read(string[] arguments, string[]? environment = null, string[]? file = null) => MudOptionsReader.Read(
        arguments,
        name => environment?.FirstOrDefault(variable => variable.StartsWith(name + "=", StringComparison.Ordinal))?[(name.Length + 1)..],
        new ConfigurationBuilder().AddInMemoryCollection(
            (file ?? []).Select(entry => entry.Split('=')).Select(parts => KeyValuePair.Create(parts[0], (string?)parts[1]))).Build());
}
