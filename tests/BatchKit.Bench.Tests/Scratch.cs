using System.Text.Json;

namespace BatchKit.Bench.Tests;

/// <summary>A folder for a test's files, removed with it.</summary>
internal sealed class Scratch : IDisposable
{
    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-bench-test-");

    public string Folder => _folder.FullName;

    public string In(params string[] parts) => Path.Combine([Folder, .. parts]);

    public string Write(string name, string text)
    {
        var path = In(name);
        Directory.CreateDirectory(Path.GetDirectoryName(path)!);
        File.WriteAllText(path, text);
        return path;
    }

    /// <summary>Writes a report of the class Rooms as BenchmarkDotNet does.</summary>
    public void WriteReport(string folder, params (string Method, string Parameters, double? Time, long? Bytes)[] rows) =>
        Write(Path.Combine(folder, "results", "Rooms-report-full-compressed.json"), JsonSerializer.Serialize(new
        {
            Title = "Rooms",
            Benchmarks = rows.Select(row => new
            {
                Namespace = "Game",
                Type = "Rooms",
                row.Method,
                row.Parameters,
                Statistics = row.Time is { } time ? new { Q1 = time } : null,
                Memory = row.Bytes is { } bytes ? new { BytesAllocatedPerOperation = bytes } : null,
            }),
        }));

    public void Dispose() => _folder.Delete(recursive: true);
}
