using System.Globalization;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Postgres;

/// <summary>A file system of a few megabytes in memory, for a tablespace that gets full. Disposing unmounts it; end the server's use of it before, or the server.</summary>
public sealed class SmallDisk : IAsyncDisposable
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(30);

    private SmallDisk(string path, string? whyMissing)
    {
        Path = path;
        WhyMissing = whyMissing;
    }

    /// <summary>Its folder, which belongs to the user who runs the server.</summary>
    public string Path { get; }

    /// <summary>Why it could not be mounted; null when it is there.</summary>
    public string? WhyMissing { get; }

    /// <summary>Mounts one, where that is allowed.</summary>
    /// <param name="bytes">How much it holds.</param>
    public static async Task<SmallDisk> MountAsync(int bytes)
    {
        if (!Environment.IsPrivilegedProcess || InstalledProgram.Find("mount") is not { } mount)
            return new SmallDisk("", "Only root may mount a small file system.");
        var path = Directory.CreateTempSubdirectory("batchkit-disk-").FullName;
        var size = string.Create(CultureInfo.InvariantCulture, $"size={bytes}");
        var (code, output) = await RunAsync(mount, "-t", "tmpfs", "-o", size, "tmpfs", path);
        if (code != 0)
        {
            Directory.Delete(path);
            return new SmallDisk("", $"A small file system could not be mounted: {output}");
        }

        await PostgresProgram.OwnAsync(path);
        return new SmallDisk(path, whyMissing: null);
    }

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (WhyMissing is not null)
            return;
        // Lazy: the server may still hold files there that it has forgotten.
        await RunAsync(InstalledProgram.Find("umount")!, "--lazy", Path);
        Directory.Delete(Path);
    }

    private static async Task<(int Code, string Output)> RunAsync(string program, params string[] arguments)
    {
        using var process = ServerProcess.Start(program, arguments, new Dictionary<string, string>(StringComparer.Ordinal));
        return await process.WaitForExitAsync(Limit) ? (process.ExitCode, process.Output.Trim()) : (-1, $"{program} did not end within {Limit}.");
    }
}
