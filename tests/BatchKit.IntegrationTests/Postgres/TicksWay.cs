using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.WorldTicks;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The WorldTicks sample's processes on one schema of a server.</summary>
internal sealed class TicksWay(PostgresServer server) : IAsyncDisposable
{
    private readonly TestSchema _schema = TestSchema.On(server, $"game \"{Guid.NewGuid():N}\"");

    /// <summary>The schema's name, with quotes that a shell takes in single ones.</summary>
    public string Schema => _schema.Name;

    /// <summary>Starts the sample with a command, or none, and more arguments.</summary>
    public WorldTicksProcess Run(params string[] arguments)
    {
        var words = arguments.TakeWhile(argument => !argument.StartsWith("--", StringComparison.Ordinal)).ToArray();
        return WorldTicksProcess.Run([.. words, "--plain", "--connection", server.ConnectionString, "--schema", _schema.Name, .. arguments.Skip(words.Length)]);
    }

    /// <summary>Waits until a worker holds tasks.</summary>
    public Task HoldsTasksAsync() => Until.TrueAsync(HasClaimsAsync);

    public ValueTask DisposeAsync() => _schema.DisposeAsync();

    /// <summary>Each task of a world that has ended was done, or died as it must.</summary>
    public static void AssertAllDone(WorldTicksProcess world)
    {
        var enqueued = world.ReadSummary("enqueued");
        Assert.True(enqueued > 0, world.Output);
        Assert.Equal(0, world.ReadSummary("lost"));
        Assert.Equal(0, world.ReadSummary("out of order"));
        Assert.Equal(0, world.ReadSummary("waiting"));
        Assert.Equal(0, world.ReadSummary("claimed"));
        Assert.Equal(enqueued, world.ReadSummary("done") + world.ReadSummary("dead"));
    }

    private async Task<bool> HasClaimsAsync() =>
        await _schema.ScalarAsync<string>("select to_regclass('{s}.claims')::text") is not null && await _schema.ScalarAsync<bool>("select exists (select from {s}.claims)");
}
