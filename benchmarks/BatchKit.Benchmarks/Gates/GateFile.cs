using System.Text.Json;
using System.Text.Json.Serialization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>Reads <c>gates.json</c>.</summary>
internal static class GateFile
{
    private static readonly JsonSerializerOptions Format = new(JsonSerializerDefaults.Web)
    {
        Converters = { new JsonStringEnumConverter() },
        ReadCommentHandling = JsonCommentHandling.Skip,
        UnmappedMemberHandling = JsonUnmappedMemberHandling.Disallow,
    };

    public static IReadOnlyDictionary<string, GateSuite> Read() => Read(Path.Combine(AppContext.BaseDirectory, "gates.json"));

    public static IReadOnlyDictionary<string, GateSuite> Read(string path)
    {
        using var file = File.OpenRead(path);
        return JsonSerializer.Deserialize<Dictionary<string, GateSuite>>(file, Format)
            ?? throw new InvalidDataException("gates.json is empty.");
    }
}
