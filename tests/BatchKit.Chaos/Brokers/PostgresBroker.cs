using System.Globalization;
using BatchKit.Chaos.Checks;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;
using BatchKit.Chaos.Nodes;
using BatchKit.Postgres;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Chaos.Brokers;

/// <summary>PostgreSQL with an ordered queue, whose tables lie on a small disk that gets full.</summary>
internal sealed class PostgresBroker : ChaosBroker
{
    private const int DiskBytes = 32 * 1024 * 1024;
    private const int FillerRows = 3000;
    private const int FillerBytes = 16 * 1024;

    private readonly PostgresServer _server;
    private readonly SmallDisk _disk;
    private readonly NpgsqlDataSource _dataSource;
    private string _schema = "";

    private PostgresBroker(PostgresServer server, SmallDisk disk)
    {
        (_server, _disk) = (server, disk);
        // A pool would hand out connections that the last fault has broken.
        _dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(server.ConnectionString) { Pooling = false });
    }

    public override string Transport => NodeHost.Postgres;

    public override Guarantee Guarantee { get; } = new(NodeHost.Postgres) { Doubling = Doubling.WhenClaimLost, OrderedWithGroups = false };

    public override IReadOnlyList<FaultKind> Faults =>
        [.. NodeFaults, FaultKind.KillBroker, FaultKind.StopBroker, FaultKind.FreezeBroker, .. _disk.WhyMissing is null ? new[] { FaultKind.FillDisk } : []];

    public override IReadOnlyList<NodePlan> Plans { get; } =
    [
        new("game", 1, [new("ana", []), new("ben", []), new("eve", []), new("joe", [])]),
        new("worker-2", 2, []),
        new("worker-3", 3, []),
    ];

    public override string Host => _server.Host;

    public override int Port => _server.Port;

    private string CreateFiller => $"create table {_schema}.filler (filling text) tablespace small; alter table {_schema}.filler alter filling set storage external";

    public static async Task<ChaosBroker> CreateAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return new PostgresBroker(await PostgresServer.StartOwnAsync(), await SmallDisk.MountAsync(DiskBytes));
    }

    // What a silent connection costs is the time limit of a statement and of its cancellation.
    public override string AddressAt(int port) => new NpgsqlConnectionStringBuilder(_server.ConnectionString) { Port = port, Timeout = 3, CancellationTimeout = 500, MaxPoolSize = 20 }.ConnectionString;

    public override async Task PrepareAsync(string prefix)
    {
        _schema = prefix;
        if (_disk.WhyMissing is null)
        {
            await ExecuteAsync($"create tablespace small location '{_disk.Path}'");
            await PostgresSchema.EnsureSchemaAsync(_dataSource, prefix);
            await ExecuteAsync($"alter table {prefix}.messages set tablespace small; alter table {prefix}.claims set tablespace small");
            await ExecuteAsync(CreateFiller);
        }
    }

    public override async Task<string?> FindRestAsync()
    {
        var queues = await new PostgresQueueAdmin(_dataSource, _schema).ListAsync();
        return queues is not [var counts, ..] || counts.Ready + counts.Delayed + counts.Claimed + counts.Dead == 0
            ? null
            : string.Create(CultureInfo.InvariantCulture, $"{counts.Ready} messages ready, {counts.Delayed} delayed, {counts.Claimed} claimed and {counts.Dead} dead");
    }

    public override Task KillAsync() => _server.KillAsync();

    public override Task StopAsync() => _server.StopAsync();

    public override Task StartAsync() => _server.StartAsync();

    public override void Freeze() => _server.Freeze();

    public override void Thaw() => _server.Thaw();

    // In many statements: the last ones fail, and a failed statement leaves its rows until a vacuum.
    public override async Task FillDiskAsync()
    {
        for (var bytes = DiskBytes / 4; bytes > FillerBytes; bytes /= 2)
        {
            try
            {
                while (true)
                    await ExecuteAsync($"insert into {_schema}.filler select repeat('x', {FillerBytes}) from generate_series(1, {Math.Min(FillerRows, bytes / FillerBytes)})");
            }
            catch (PostgresException exception) when (exception.SqlState == PostgresErrorCodes.DiskFull)
            {
                // Now with less.
            }
        }
    }

    public override async Task FreeDiskAsync()
    {
        await ExecuteAsync($"drop table {_schema}.filler");
        // Autovacuum begins once a minute, and this server seldom runs for so long: within half an hour deleted messages would fill the disk for good.
        await ExecuteAsync($"vacuum {_schema}.messages, {_schema}.claims");
        // Or a server that is killed next fills the disk again as it reads its log, and does not start.
        await ExecuteAsync("checkpoint");
        await ExecuteAsync(CreateFiller);
    }

    public override async ValueTask DisposeAsync()
    {
        await _dataSource.DisposeAsync();
        await _server.DisposeAsync();
        await _disk.DisposeAsync();
    }

    private async Task ExecuteAsync(string sql)
    {
        await using var command = _dataSource.CreateCommand(sql);
        await command.ExecuteNonQueryAsync();
    }
}
