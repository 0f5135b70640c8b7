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

    /// <summary>Writes a report as BenchmarkDotNet does: its class is the file's name.</summary>
    public void WriteReport(string folder, string className, params (string Method, string Parameters, double? Time, long? Bytes)[] rows) =>
        Write(Path.Combine(folder, "results", $"{className}-report-full-compressed.json"), JsonSerializer.Serialize(new
        {
            Title = className,
            Benchmarks = rows.Select(row => new
            {
                Namespace = "Game",
                Type = className,
                row.Method,
                row.Parameters,
                Statistics = row.Time is { } time ? new { Q1 = time } : null,
                Memory = row.Bytes is { } bytes ? new { BytesAllocatedPerOperation = bytes } : null,
            }),
        }));

    public void Dispose() => _folder.Delete(recursive: true);
}
