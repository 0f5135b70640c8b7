using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>What <c>batchkit</c> says when it can't do what it was asked: one line, and no secrets.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class ToolFailureTests(PostgresFixture fixture)
{
    [Fact]
    public async Task Help_and_version_are_no_failure()
    {
        var help = await ToolRun.RunAsync(connection: null, "--help");
        var version = await ToolRun.RunAsync(connection: null, "--version");
        var nothing = await ToolRun.RunAsync(connection: null);

        Assert.Equal((0, 0, 2), (help.ExitCode, version.ExitCode, nothing.ExitCode));
        Assert.Contains("batchkit [command] [options]", help.Output, StringComparison.Ordinal);
        Assert.Matches(@"^\d+\.\d+\.\d+\n$", version.Output);
        Assert.Contains("batchkit [command] [options]", nothing.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("queue dead", "Option '--queue' is required.")]
    [InlineData("queue dead --queue tasks --limit 0", "--limit must be 1 or more.")]
    [InlineData("queue dead --queue tasks --limit many", "Cannot parse argument 'many' for option '--limit' as expected type 'System.Int32'.")]
    [InlineData("queue replay --queue tasks", "Say which messages: --id, or --all.")]
    [InlineData("queue replay --queue tasks --id 1 --all", "Say which messages: --id, or --all.")]
    [InlineData("queue purge --queue tasks --id 1", "--id names dead messages: give --dead with it.")]
    [InlineData("queue list --nonsense", "Unrecognized command or argument '--nonsense'.")]
    public async Task A_command_line_that_can_not_be_followed_ends_with_2(string arguments, string complaint)
    {
        var run = await ToolRun.RunAsync("Host=127.0.0.1", arguments.Split(' '));

        Assert.Equal((2, complaint), (run.ExitCode, run.Errors.Trim()));
    }

    [Theory]
    [InlineData(null)]
    [InlineData("postgres://user:secret@host/database?a=b")]
    [InlineData("Host=db;Password=secret;Port=many")]
    public async Task A_connection_that_is_missing_or_wrong_is_never_shown(string? connection)
    {
        var run = await ToolRun.RunAsync(connection, "queue", "list");

        Assert.Equal(2, run.ExitCode);
        Assert.Contains("Host=…;Username=…;Password=…;Database=…", Assert.Single(Lines(run.Errors)), StringComparison.Ordinal);
        Assert.DoesNotContain("secret", run.Errors + run.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_server_that_is_down_is_one_line()
    {
        var run = await ToolRun.RunAsync(connection: null, "queue", "list", "--connection", $"Host=127.0.0.1;Port={FreePort.Take(1)[0]};Password=secret");

        Assert.Equal((1, ""), (run.ExitCode, run.Output));
        Assert.StartsWith("The server can't be reached: ", Assert.Single(Lines(run.Errors)), StringComparison.Ordinal);
        Assert.DoesNotContain("secret", run.Errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_login_that_is_refused_is_one_line()
    {
        var server = await fixture.GetAsync();

        var run = await ToolRun.RunAsync($"{server.ConnectionString};Username=nobody_{Guid.NewGuid():N};Password=secret", "queue", "list");

        Assert.Equal(1, run.ExitCode);
        Assert.StartsWith("The server refused the login: ", Assert.Single(Lines(run.Errors)), StringComparison.Ordinal);
        Assert.DoesNotContain("secret", run.Errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_missing_schema_is_named()
    {
        var server = await fixture.GetAsync();

        var run = await ToolRun.RunAsync(server.ConnectionString, "queue", "list", "--schema", "it's not \"there\"");
        var impossible = await ToolRun.RunAsync(server.ConnectionString, "queue", "list", "--schema", new string('s', 64));

        Assert.Equal(1, run.ExitCode);
        Assert.StartsWith("There are no tables of BatchKit in the schema 'it's not \"there\"'", Assert.Single(Lines(run.Errors)), StringComparison.Ordinal);
        Assert.Equal(2, impossible.ExitCode);
        Assert.StartsWith("The schema's name has 64 UTF-8 bytes", Assert.Single(Lines(impossible.Errors)), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--help > /dev/full", 1)]
    [InlineData("--version > /dev/full", 1)]
    [InlineData("--help >&-", 1)]
    [InlineData("queue list > /dev/full", 1)]
    [InlineData("nonsense > /dev/full", 1)]
    [InlineData("--help | true", 0)]
    public async Task Output_that_can_not_be_written_is_no_stack_trace(string arguments, int exitCode)
    {
        Assert.SkipUnless(File.Exists("/dev/full"), "Only Linux has a file that stands for a full disk.");
        var server = await fixture.GetAsync();

        var run = await ToolRun.RunInShellAsync(server.ConnectionString, arguments);

        Assert.True(run.ExitCode == exitCode, run.Errors);
        Assert.DoesNotContain("   at ", run.Errors, StringComparison.Ordinal);
        Assert.Equal(exitCode == 0, Lines(run.Errors).Length == 0);
    }

    private static string[] Lines(string text) => text.Split('\n', StringSplitOptions.RemoveEmptyEntries);
}
