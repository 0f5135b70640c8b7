using System.Diagnostics;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.Processes;
using Npgsql;

namespace BatchKit.Bench.Tests;

/// <summary>What <c>batchkit-bench run rhythm --connection</c> says of a database that fails, and what it leaves there.</summary>
public sealed class NamedDatabaseTests : IAsyncLifetime
{
    private const string Schemas = "select count(*) from pg_namespace where nspname in ('batchkit', 'rhythm')";

    private readonly Scratch _scratch = new();
    private PostgresServer _server = null!;
    private Process? _run;

    public async ValueTask InitializeAsync()
    {
        Assert.SkipWhen(PostgresServer.WhyNotInstalled is not null, PostgresServer.WhyNotInstalled ?? "");
        _server = await PostgresServer.StartOwnAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_run is { HasExited: false })
            _run.Kill(entireProcessTree: true);
        _run?.Dispose();
        _scratch.Dispose();
        if (_server is not null)
            await _server.DisposeAsync();
    }

    [Fact]
    public async Task An_error_of_the_database_is_one_line_with_the_options_name_and_the_schemas_are_gone()
    {
        await using var source = NpgsqlDataSource.Create(_server.ConnectionString);
        await ExecuteAsync(source, "create role few login connection limit 3");
        await ExecuteAsync(source, "create database few owner few");
        var few = new NpgsqlConnectionStringBuilder(_server.ConnectionString) { Username = "few", Database = "few" }.ConnectionString;

        var run = await BenchRun.RunAsync(_scratch.Folder, "run", "rhythm", "--connection", few, "--count", "20", "--rounds", "1");

        Assert.True(run.ExitCode == 1, run.Text);
        Assert.Matches("^--connection: 53300: .*\"few\"$", run.Errors.Trim().Split('\n')[^1]);
        Assert.DoesNotContain("   at ", run.Text, StringComparison.Ordinal);
        await using var database = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(_server.ConnectionString) { Database = "few" });
        Assert.Equal(0, await CountAsync(database, Schemas));
    }

    [Fact]
    public async Task A_server_that_goes_away_is_told_with_the_options_name_and_with_what_is_left_there()
    {
        var run = await BeginAsync();

        await _server.StopAsync();
        var errors = await EndAsync(run);

        Assert.True(run.ExitCode == 1, errors);
        Assert.StartsWith("--connection: ", errors.Split('\n')[^1], StringComparison.Ordinal);
        Assert.Contains("The schemas batchkit and rhythm are left in the database postgres: ", errors, StringComparison.Ordinal);
        Assert.DoesNotContain("   at ", errors, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_signal_in_the_middle_of_a_long_row_leaves_no_schema()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "It is a signal of POSIX.");
        var run = await BeginAsync();

        Signal.Send(run.Id, Signal.Terminate);
        var errors = await EndAsync(run);

        Assert.Equal((143, "Interrupted."), (run.ExitCode, errors.Split('\n')[^1]));
        await using var source = NpgsqlDataSource.Create(_server.ConnectionString);
        Assert.Equal(0, await CountAsync(source, Schemas));
    }

    /// <summary>Begins a run whose first row takes minutes, and waits until it has begun.</summary>
    private async Task<Process> BeginAsync()
    {
        _run = Process.Start(new ProcessStartInfo("dotnet", [BenchRun.Program, "run", "rhythm", "--connection", _server.ConnectionString, "--count", "1000000", "--rounds", "1"])
        {
            WorkingDirectory = _scratch.Folder,
            UseShellExecute = false,
            RedirectStandardError = true,
            RedirectStandardInput = true,
        })!;
        await using var source = NpgsqlDataSource.Create(_server.ConnectionString);
        await Until.TrueAsync(async () => await CountAsync(source, "select count(*) from pg_stat_activity where query ~ 'insert into batchkit.messages|pg_notify' and pid <> pg_backend_pid()") > 0);
        return _run;
    }

    private static async Task<string> EndAsync(Process run)
    {
        var errors = await run.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await run.WaitForExitAsync(TestContext.Current.CancellationToken).WithinDeadline();
        return errors.Trim();
    }

    private static async Task ExecuteAsync(NpgsqlDataSource source, string statement)
    {
        await using var command = source.CreateCommand(statement);
        await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
    }

    private static async Task<long> CountAsync(NpgsqlDataSource source, string statement)
    {
        await using var command = source.CreateCommand(statement);
        return (long)(await command.ExecuteScalarAsync(TestContext.Current.CancellationToken))!;
    }
}
