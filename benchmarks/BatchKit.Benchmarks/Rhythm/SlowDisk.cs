using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Measuring;
using BatchKit.TestServers.Postgres;

namespace BatchKit.Benchmarks.Rhythm;

/// <summary>A PostgreSQL each of whose fsync and fdatasync takes a millisecond more, by a library in C that is preloaded into it.</summary>
internal sealed class SlowDisk : IDisposable
{
    private const int Commits = 15;
    private static readonly TimeSpan Added = TimeSpan.FromMilliseconds(1);

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-slowsync-");

    /// <summary>Starts one.</summary>
    /// <returns>Null, and the reason, when there is no compiler, or when commits do not get slower.</returns>
    public async Task<(RhythmStage? Stage, string? WhyMissing)> StartAsync(string disk)
    {
        if (NativeProgram.WhyMissing is { } reason)
            return (null, reason);
        // PostgreSQL runs as a user of its own.
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(_folder.FullName, (UnixFileMode)0b111_101_101);
        var library = NativeProgram.BuildLibrary("slowsync", Path.Combine(_folder.FullName, "slowsync.so"));
        var stage = await RhythmStage.StartAsync(disk, new PostgresServerOptions
        {
            Environment = new Dictionary<string, string>(StringComparer.Ordinal) { ["LD_PRELOAD"] = library },
        });

        // Whatever starts the server could have taken the variable out of its environment: only a clock tells.
        if (await MeasureCommitAsync(stage) is var commit && commit >= Added)
            return (stage, null);
        await stage.DisposeAsync();
        return (null, $"a commit takes {commit.TotalMilliseconds:0.00} ms, so that the library was not preloaded");
    }

    public void Dispose() => _folder.Delete(recursive: true);

    /// <summary>The shortest of some commits by one connection: others' load only makes them longer.</summary>
    public static async Task<TimeSpan> MeasureCommitAsync(RhythmStage stage)
    {
        await stage.ExecuteAsync("create table if not exists rhythm.commits (number int)");
        var times = new List<double>();
        for (var commit = 0; commit < Commits; commit++)
        {
            var began = Stopwatch.GetTimestamp();
            await stage.ExecuteAsync("insert into rhythm.commits values (1)");
            times.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
        }

        return TimeSpan.FromMilliseconds(Quantile.Of(times, 0));
    }
}
