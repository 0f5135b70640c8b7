using System.Text.Json;
using BatchKit.Postgres;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The program <c>batchkit</c>, run as people and scripts run it.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class ToolTests(PostgresFixture fixture) : IAsyncLifetime
{
    private string _connection = "";
    private TestSchema? _schema;

    private TestSchema Schema => _schema!;

    public async ValueTask InitializeAsync()
    {
        _connection = (await fixture.GetAsync()).ConnectionString;
        _schema = await fixture.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(_schema.DataSource, _schema.Name);
    }

    public ValueTask DisposeAsync() => _schema?.DisposeAsync() ?? ValueTask.CompletedTask;

    [Fact]
    public async Task Queues_are_listed_for_people_and_for_programs()
    {
        var rows = await QueueRows.CreateAsync(Schema, "evil\u001b[31m");
        await rows.AddAsync();
        await rows.BuryAsync(1);
        await QueueRows.CreateAsync(Schema);

        var table = await RunAsync("list");
        var json = await RunAsync("list", "--json", "--queue", "evil\u001b[31m");

        Assert.Equal((0, ""), (table.ExitCode, table.Errors));
        Assert.Matches(@"Queue +Shards +Ready +Delayed +Claimed +Dead +Oldest", table.Output);
        Assert.Matches(@"evil\\u001b\[31m +0 +1 +0 +0 +1 +\d+ s", table.Output);
        Assert.Matches(@"tasks +0 +0 +0 +0 +0 +-", table.Output);
        Assert.DoesNotContain('\u001b', table.Output);
        var counts = Assert.Single(JsonDocument.Parse(json.Output).RootElement.EnumerateArray());
        Assert.Equal(["queue", "shards", "ready", "delayed", "claimed", "dead", "oldestAgeSeconds"], counts.EnumerateObject().Select(property => property.Name));
        Assert.Equal(("evil\u001b[31m", 1), (counts.GetProperty("queue").GetString(), counts.GetProperty("ready").GetInt32()));
    }

    [Fact]
    public async Task A_dead_message_whose_header_a_newer_version_wrote_is_shown_like_its_neighbours()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.BuryAsync(17, "newer", "Why.");
        await rows.BuryAsync(18, "other", "Why.");
        await Schema.ExecuteAsync("update {s}.dead set key = null, header = '\\x424b4603' where id = 17");

        var table = await RunAsync("dead", "--queue", "tasks");

        Assert.Equal((0, ""), (table.ExitCode, table.Errors));
        Assert.Matches(@"17 +- +5 +\d+ s ago +Why\. +newer", table.Output);
        Assert.Matches(@"18 .*other", table.Output);
    }

    [Fact]
    public async Task Dead_messages_are_shown_with_their_error()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.BuryAsync(17, "line one\r\nline two", $"It failed.\u001b[2J {new string('e', 300)}", key: "npc", secondsAgo: 3 * 86400);
        await rows.BuryAsync(18, "\u0001\u0002 bytes", "No text.");

        var table = await RunAsync("dead", "--queue", "tasks");
        var one = await RunAsync("dead", "--queue", "tasks", "--limit", "1");
        var json = await RunAsync("dead", "--queue", "tasks", "--json");

        Assert.Matches(@"17 +npc +5 +3 d ago +It failed\.\\u001b\[2J e+… +line one\\r\\nline two", table.Output);
        Assert.Matches(@"18 +- +5 +\d+ s ago +No text\. +0x0102206279746573", table.Output);
        Assert.All(table.Output.Split('\n'), line => Assert.InRange(line.Length, 0, 160));
        Assert.Contains("The latest 1; there are more (--limit).", one.Output, StringComparison.Ordinal);
        var dead = JsonDocument.Parse(json.Output).RootElement.EnumerateArray().ToArray();
        Assert.Equal(["id", "key", "attempts", "error", "enqueuedAt", "diedAt", "payload", "text"], dead[0].EnumerateObject().Select(property => property.Name));
        Assert.Equal([null, "line one\r\nline two"], dead.Select(message => message.GetProperty("text").GetString()));
        Assert.Equal("\u0001\u0002 bytes"u8.ToArray(), dead[0].GetProperty("payload").GetBytesFromBase64());
    }

    [Fact]
    public async Task Messages_are_replayed_by_number()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.BuryAsync(1_000_001);
        await rows.BuryAsync(1_000_002);

        var whole = await RunAsync("replay", "--queue", "tasks", "--id", "1000001");
        var part = await RunAsync("replay", "--queue", "tasks", "--id", "1000002", "--id", "5", "--json");

        Assert.Equal((0, "Replayed 1 message of queue 'tasks'.\n", ""), (whole.ExitCode, whole.Output, whole.Errors));
        Assert.Equal((1, 1), (part.ExitCode, JsonDocument.Parse(part.Output).RootElement.GetProperty("replayed").GetInt32()));
        Assert.StartsWith("1 of the 2 were left", part.Errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_waiting_message_is_cancelled_by_its_uniqueness_key()
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.AddAsync();
        await Schema.ExecuteAsync("update {s}.messages set unique_key = 'key'; insert into {s}.unique_keys select queue, unique_key from {s}.messages");

        var first = await RunAsync("cancel", "--queue", "tasks", "--key", "key");
        var second = await RunAsync("cancel", "--queue", "tasks", "--key", "key", "--json");

        Assert.Equal((0, "Deleted 1 message of queue 'tasks'.\n", ""), (first.ExitCode, first.Output, first.Errors));
        Assert.Equal((1, 0), (second.ExitCode, JsonDocument.Parse(second.Output).RootElement.GetProperty("deleted").GetInt32()));
        Assert.StartsWith("No message with this uniqueness key waits", second.Errors, StringComparison.Ordinal);
        Assert.Equal(0, await Schema.ScalarAsync<long>("select count(*) from {s}.unique_keys"));
    }

    [Theory]
    [InlineData("replay", "--all")]
    [InlineData("purge")]
    [InlineData("purge", "--dead")]
    public async Task What_touches_everything_needs_a_yes(params string[] command)
    {
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.AddAsync();
        await rows.BuryAsync(1_000_001);

        var refused = await RunAsync([.. command, "--queue", "tasks"]);
        var done = await RunAsync([.. command, "--queue", "tasks", "--yes"]);

        Assert.Equal((2, "", "There is no terminal to ask on whether you are sure: give --yes.\n"), (refused.ExitCode, refused.Output, refused.Errors));
        Assert.Equal(0, done.ExitCode);
        Assert.Matches("ed 1 message of queue 'tasks'", done.Output);
    }

    [Fact]
    public async Task On_a_terminal_it_asks_first()
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing("env", "coreutils"));
        var rows = await QueueRows.CreateAsync(Schema);
        await rows.AddAsync();
        await rows.AddAsync();
        var command = $"{ToolRun.ConnectionVariable}='{_connection}' dotnet '{ToolRun.ProgramPath}' queue purge --schema {Schema.Name} --queue tasks";

        using (var terminal = TerminalProgram.Start("env", command))
        {
            await terminal.ReadPastAsync("Delete what waits in queue 'tasks' (2 messages)? [y/N]");
            await terminal.TypeAsync("n");
            await terminal.ReadPastAsync("Nothing was changed.");
        }

        Assert.Equal(2, await Schema.ScalarAsync<long>("select count(*) from {s}.messages"));
        using (var terminal = TerminalProgram.Start("env", command))
        {
            await terminal.ReadPastAsync("[y/N]");
            await terminal.TypeAsync("y");
            await terminal.ReadPastAsync("Deleted 2 messages of queue 'tasks'.");
        }

        Assert.Equal(0, await Schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Theory]
    [InlineData("list", "--queue", "nowhere")]
    [InlineData("dead", "--queue", "nowhere")]
    [InlineData("replay", "--id", "1", "--queue", "nowhere")]
    [InlineData("purge", "--yes", "--queue", "nowhere")]
    public async Task An_unknown_queue_is_one_line(params string[] command)
    {
        var run = await RunAsync(command);

        Assert.Equal((1, "", $"There is no queue 'nowhere' in the schema '{Schema.Name}'. Check both names; a queue is created by its first message, or when its receiver starts.\n"), (run.ExitCode, run.Output, run.Errors));
    }

    private Task<ToolRun> RunAsync(params string[] command) => ToolRun.RunAsync(_connection, ["queue", command[0], "--schema", Schema.Name, .. command[1..]]);
}
