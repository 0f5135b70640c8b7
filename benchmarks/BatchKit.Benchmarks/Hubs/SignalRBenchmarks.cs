using System.Globalization;
using BatchKit.Benchmarks.Gates;
using BatchKit.Benchmarks.HubNodes;
using BatchKit.Benchmarks.Measuring;
using BatchKit.TestServers.Redis;
using StackExchange.Redis;

namespace BatchKit.Benchmarks.Hubs;

/// <summary>How long do 1000 messages that a hub sends to a group in a loop take to its clients, on two servers over Redis and on one alone?</summary>
/// <remarks>Its own loop and not BenchmarkDotNet's: each server is a process, and the time ends in another one.</remarks>
internal sealed class SignalRBenchmarks : ISuiteRunner
{
    private const int Others = 19;

    private readonly List<(string Title, HubRow[] Rows)> _groups = [];
    private readonly List<HubStage> _stages = [];

    /// <summary>Why nothing of it can run here; null when it can.</summary>
    public static string? WhyUnfit => Machine.WhyUnfit ?? RedisServer.WhyMissing;

    public SuiteReadings Measure(GateSuite suite, bool everything)
    {
        if (WhyUnfit is { } reason)
            throw new InvalidOperationException(reason);
        return MeasureAsync(suite).GetAwaiter().GetResult();
    }

    private async Task<SuiteReadings> MeasureAsync(GateSuite suite)
    {
        await using var server = await RedisServer.ConnectOrStartAsync();
        var address = $"{server.Address.Host}:{server.Address.Port}";
        await using var redis = await ConnectionMultiplexer.ConnectAsync($"{address},allowAdmin=true");
        try
        {
            AddGroups(address);
            return Run(suite, () => CountPublished(redis));
        }
        finally
        {
            _stages.ForEach(static stage => stage.Dispose());
        }
    }

    private void AddGroups(string redis)
    {
        var (stock, own) = (Start(isBatchKit: false, redis), Start(isBatchKit: true, redis));
        _groups.Add(("Two servers over Redis, a client on each",
        [
            new("StockAwaited", HubSending.Awaited, stock), new("StockWhenAll", HubSending.WhenAll, stock),
            new("Awaited", HubSending.Awaited, own), new("WhenAll", HubSending.WhenAll, own), new("Scope", HubSending.Scope, own),
        ]));
        (stock, own) = (Start(isBatchKit: false), Start(isBatchKit: true));
        _groups.Add(("One server, one client",
        [
            new("AloneStockAwaited", HubSending.Awaited, stock), new("AloneStockWhenAll", HubSending.WhenAll, stock),
            new("AloneAwaited", HubSending.Awaited, own), new("AloneWhenAll", HubSending.WhenAll, own), new("AloneScope", HubSending.Scope, own),
        ]));
        var (reading, stuck) = (Start(isBatchKit: true, clients: Others), Start(isBatchKit: true, clients: Others, hasStuck: true));
        stock = Start(isBatchKit: false, clients: Others);
        _groups.Add(($"One server, {Others} clients that read",
        [
            new("OthersStockAwaited", HubSending.Awaited, stock), new("Others", HubSending.Scope, reading), new("OthersBesideStuck", HubSending.Scope, stuck),
            new("OthersAwaited", HubSending.Awaited, reading), new("OthersAwaitedBesideStuck", HubSending.Awaited, stuck),
        ]));
    }

    private HubStage Start(bool isBatchKit, string? redis = null, int clients = 1, bool hasStuck = false)
    {
        _stages.Add(new HubStage(isBatchKit, redis, clients, hasStuck));
        return _stages[^1];
    }

    private SuiteReadings Run(GateSuite suite, Func<long> countPublished)
    {
        var readings = new SuiteReadings(WriteTables);
        HubRow[] rows = [.. _groups.SelectMany(static group => group.Rows)];
        suite.RefuseUnknown(name => rows.Any(row => row.Name == name));
        Console.Error.WriteLine("warming up");
        foreach (var row in rows)
            row.WarmUp(suite.WarmupIterations);

        // All rows work in turn, so that a noisy moment hits all of them, and the first of a round is another one each time.
        for (var round = 1; round <= suite.Rounds; round++)
        {
            Console.Error.WriteLine($"round {round} of {suite.Rounds}");
            for (var turn = 0; turn < rows.Length; turn++)
            {
                var row = rows[(round + turn) % rows.Length];
                readings.Add(row.Name, row.Measure(suite.Iterations, TimeSpan.FromMilliseconds(suite.IterationMilliseconds), countPublished));
            }
        }

        return readings;
    }

    private static long CountPublished(ConnectionMultiplexer redis)
    {
        const string Entry = "cmdstat_publish:calls=";
        var statistics = (string?)redis.GetDatabase().Execute("INFO", "commandstats") ?? "";
        var begin = statistics.IndexOf(Entry, StringComparison.Ordinal);
        return begin < 0 ? 0 : long.Parse(statistics[(begin + Entry.Length)..].Split(',')[0], CultureInfo.InvariantCulture);
    }

    private void WriteTables(TextWriter writer)
    {
        MarkdownTable.WriteMachine(writer);
        foreach (var (title, rows) in _groups)
            MarkdownTable.Write(writer, $"{title}: {HubNodeCommand.Messages} messages", HubRow.Columns, rows.Select(static row => row.Describe()));
    }
}
