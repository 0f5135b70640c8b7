using System.Globalization;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;
using Npgsql;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>A stranger copies each recipe of the front page, builds it against the packages, and runs it against real brokers.</summary>
[Collection(typeof(StrangersCollection))]
[Trait("Lane", "night: projects are built")]
public sealed class WalkTests(StrangersFolder folder, RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, PostgresFixture postgres)
{
    [Fact]
    public async Task The_quick_start_sends_a_thousand_writes_as_one_batch()
    {
        using var program = new CopiedProgram(folder["QuickStart"]);

        Assert.Equal(0, await program.WaitForExitAsync());
        await program.WaitForOutputAsync("1 batch with 1000 messages");
    }

    [Fact]
    public async Task The_tick_loop_sends_once_a_tick()
    {
        using var program = new CopiedProgram(folder["TickLoop"]);

        Assert.Equal(0, await program.WaitForExitAsync());
        await program.WaitForOutputAsync("tick loop: 400 messages in ");
        var sends = int.Parse($"{program.Output}".Split("400 messages in ")[1].Split(' ')[0], CultureInfo.InvariantCulture);
        // A hundred steps, and the end.
        Assert.InRange(sends, 1, 101);
    }

    [Fact]
    public async Task A_line_typed_at_one_chat_node_appears_once_at_both()
    {
        var broker = (await rabbitMq.GetAsync()).Address;
        var ports = FreePort.Take(2);
        string[] shared = [$"--RabbitMq:ConnectionString={broker}", $"--RabbitMq:Prefix={Guid.NewGuid():N}"];
        using var first = new CopiedProgram(folder["TwoNodeChat"], [$"--urls=http://127.0.0.1:{ports[0]}", .. shared]);
        using var second = new CopiedProgram(folder["TwoNodeChat"], [$"--urls=http://127.0.0.1:{ports[1]}", .. shared]);
        await first.WaitForOutputAsync("Application started");
        await second.WaitForOutputAsync("Application started");
        await using var ann = await ChatPage.OpenAsync(ports[0]);
        await using var bob = await ChatPage.OpenAsync(ports[1]);

        Assert.True(await ann.TypeUntilReadAsync("ann", bob), $"{first.Output}{second.Output}");
        Assert.True(await bob.TypeUntilReadAsync("bob", ann), $"{first.Output}{second.Output}");
        await ann.TypeAsync("goodbye");
        await bob.ReadUntilAsync("goodbye");
        await ann.ReadUntilAsync("goodbye");

        Assert.Distinct(ann.Lines);
        Assert.Distinct(bob.Lines);
    }

    [Fact]
    public async Task The_sensors_readings_arrive_through_the_broker()
    {
        var broker = (await mosquitto.GetAsync()).Address;
        using var program = new CopiedProgram(folder["Sensors"], $"--Mqtt:Server={broker}");

        await program.WaitForOutputAsync("sensors/1 at ");
        await program.WaitForOutputAsync("sensors/100 at ");
        program.Interrupt();

        Assert.Equal(0, await program.WaitForExitAsync());
    }

    [Fact]
    public async Task Each_task_in_the_database_is_handled()
    {
        var server = await postgres.GetAsync();
        var database = $"walk_{Guid.NewGuid():N}";
        await using (var source = NpgsqlDataSource.Create(server.ConnectionString))
        await using (var create = source.CreateCommand($"CREATE DATABASE {database}"))
            await create.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        var connection = new NpgsqlConnectionStringBuilder(server.ConnectionString) { Database = database };
        using var program = new CopiedProgram(folder["Tasks"], $"--ConnectionStrings:Tasks={connection}");

        await Until.TrueAsync(() => program.Output.Split(" is sent.").Length == 1001);
        program.Interrupt();

        Assert.Equal(0, await program.WaitForExitAsync());
        Assert.Contains("Mail 1000 is sent.", program.Output, StringComparison.Ordinal);
    }
}
