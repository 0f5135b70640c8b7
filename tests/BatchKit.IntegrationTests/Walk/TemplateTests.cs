using System.Net;
using System.Text.Json;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.IntegrationTests.Walk;

/// <summary>A stranger installs the templates, makes a project from each, builds it against the packages, and runs it.</summary>
[Collection(typeof(StrangersCollection))]
[Trait("Lane", "night: projects are built")]
public sealed class TemplateTests(StrangersFolder folder, RabbitMqFixture rabbitMq, PostgresFixture postgres)
{
    private static readonly string[] Lines = [.. Enumerable.Range(1, 1000).Select(number => $"line {number}")];

    [Fact]
    public async Task Two_players_talk_in_the_mud_and_a_loop_shows_its_thousand_lines()
    {
        using var mud = new CopiedProgram(folder[StrangersFolder.Mud]);
        await mud.WaitForOutputAsync("Application started");
        using var ann = await TelnetClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, folder.MudPort));
        using var bob = await TelnetClient.ConnectAsync(new IPEndPoint(IPAddress.Loopback, folder.MudPort));
        await ann.ReadToPromptAsync();
        await ann.AskAsync("Ann");
        await bob.ReadToPromptAsync();
        await bob.AskAsync("ann");
        var arrival = await bob.AskAsync("Bob");

        var said = await bob.AskAsync("say ahoy");
        await ann.ReadPastAsync("Bob says, \"ahoy\"\r\n");
        var lines = await ann.AskAsync("@dolist 1..1000=echo line ##");
        await bob.SendAsync("quit\r\n");
        await ann.ReadPastAsync("Bob leaves.\r\n");
        mud.Interrupt();

        Assert.Contains("Here: Ann, Bob", arrival);
        Assert.Equal(["You say, \"ahoy\""], said);
        Assert.Equal(Lines, lines);
        Assert.Equal("The lighthouse closes. Goodbye!\r\n", await ann.ReadToEndAsync());
        Assert.Equal(0, await mud.WaitForExitAsync());
    }

    [Fact]
    public async Task Two_browsers_talk_over_one_process_without_a_broker()
    {
        var port = FreePort.Take(1)[0];
        using var chat = new CopiedProgram(folder[StrangersFolder.Chat], $"--urls=http://127.0.0.1:{port}");
        await chat.WaitForOutputAsync("Application started");
        await using var ann = await ChatPage.OpenAsync(port);
        await using var bob = await ChatPage.OpenAsync(port);

        await ann.TypeAsync("Ann");
        await ann.ReadUntilAsync("Welcome, Ann.");
        await bob.TypeAsync("Bob");
        await ann.ReadUntilAsync("Bob joined.");
        await bob.TypeAsync("Good morning.");
        await ann.ReadUntilAsync("Bob: Good morning.");
        await bob.ReadUntilAsync("Bob: Good morning.");
        chat.Interrupt();

        Assert.Equal(0, await chat.WaitForExitAsync());
    }

    [Fact]
    public async Task Two_browsers_talk_over_two_processes_with_RabbitMQ_between_them()
    {
        var broker = (await rabbitMq.GetAsync()).Address;
        var ports = FreePort.Take(2);
        string[] shared = [$"--RabbitMq:ConnectionString={broker}", $"--RabbitMq:Prefix={Guid.NewGuid():N}"];
        using var first = new CopiedProgram(folder[StrangersFolder.Chat], [$"--urls=http://127.0.0.1:{ports[0]}", .. shared]);
        using var second = new CopiedProgram(folder[StrangersFolder.Chat], [$"--urls=http://127.0.0.1:{ports[1]}", .. shared]);
        await first.WaitForOutputAsync("Application started");
        await second.WaitForOutputAsync("Application started");
        await using var ann = await ChatPage.OpenAsync(ports[0]);
        await using var bob = await ChatPage.OpenAsync(ports[1]);
        await ann.TypeAsync("Ann");
        await bob.TypeAsync("Bob");

        Assert.True(await ann.TypeUntilReadAsync("Ann: ", bob), $"{first.Output}{second.Output}");
        Assert.True(await bob.TypeUntilReadAsync("Bob: ", ann), $"{first.Output}{second.Output}");
        await ann.TypeAsync("goodbye");
        await bob.ReadUntilAsync("Ann: goodbye");
        first.Interrupt();
        second.Interrupt();

        Assert.Equal(0, await first.WaitForExitAsync());
        Assert.Equal(0, await second.WaitForExitAsync());
        Assert.Distinct(bob.Lines);
    }

    [Fact]
    public async Task The_worker_stores_tasks_in_the_database_and_handles_each()
    {
        var server = await postgres.GetAsync();
        await using var schema = await postgres.NewSchemaAsync();
        using var worker = new CopiedProgram(
            folder[StrangersFolder.Worker], $"--ConnectionStrings:Tasks={server.ConnectionString}", $"--Postgres:Schema={schema.Name}", $"--Mails:Schema={schema.Name}");

        await Until.TrueAsync(() => worker.Output.Split("\" is sent to player").Length > 100);
        worker.Interrupt();

        Assert.Equal(0, await worker.WaitForExitAsync());
        Assert.All(Enumerable.Range(1, 100), number => Assert.Contains($" is sent to player{number}@example.org.", worker.Output, StringComparison.Ordinal));
        Assert.Equal(0, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
        Assert.Equal(0, await schema.ScalarAsync<long>("select count(*) from {s}.claims"));
    }

    [Theory]
    [InlineData("batchkit-chat", "--rabbitmq", "amqp://guest:p%22@broker/", "RabbitMq:ConnectionString")]
    [InlineData("batchkit-chat", "--port", "5123", "Urls")]
    [InlineData("batchkit-worker", "--connection", """Host=db;Password="a\b" """, "ConnectionStrings:Tasks")]
    public async Task A_parameter_of_a_template_is_a_setting_of_the_project(string template, string parameter, string value, string key)
    {
        var name = $"Made{Guid.NewGuid():N}";
        await folder.CreateAsync(template, name, parameter, value);

        using var settings = JsonDocument.Parse(await File.ReadAllTextAsync(Path.Combine(folder[name].FullName, "appsettings.json"), TestContext.Current.CancellationToken));

        Assert.Contains(value, key.Split(':').Aggregate(settings.RootElement, (section, part) => section.GetProperty(part)).GetString(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("BatchKit.Broadcast")]
    [InlineData("RabbitMQ.Client")]
    [InlineData("BatchKit")]
    public void A_project_that_is_named_as_a_package_that_it_references_builds(string name)
    {
        var built = Path.Combine(folder[name].FullName, "bin", "Debug", "net10.0");

        Assert.True(File.Exists(Path.Combine(built, $"{name}.Server.dll")));
        Assert.True(File.Exists(Path.Combine(built, $"{name}.dll")));
    }
}
