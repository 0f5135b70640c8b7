using System.Text.Json;
using System.Text.Json.Serialization;

namespace BatchKit.Benchmarks.Gates;

/// <summary>Reads <c>gates.json</c>.</summary>
internal static class GateFile
{
    private static readonly JsonSerializerOptions Format = new(JsonSerializerDefaults.Web)
    {
        Converters = { new JsonStringEnumConverter(JsonNamingPolicy.CamelCase) },
        ReadCommentHandling = JsonCommentHandling.Skip,
        RespectNullableAnnotations = true,
        UnmappedMemberHandling = JsonUnmappedMemberHandling.Disallow,
        AllowDuplicateProperties = false,
        DefaultIgnoreCondition = JsonIgnoreCondition.WhenWritingDefault,
        IgnoreReadOnlyProperties = true,
        WriteIndented = true,
    };

    /// <summary>The gates of this project.</summary>
    public static IReadOnlyDictionary<string, GateSuite> Read() => Read(Path.Combine(AppContext.BaseDirectory, "gates.json"));

    /// <exception cref="InvalidDataException">The file is no file of gates; the message says where.</exception>
    public static IReadOnlyDictionary<string, GateSuite> Read(string path)
    {
        try
        {
            using var file = File.OpenRead(path);
            var suites = JsonSerializer.Deserialize<Dictionary<string, GateSuite>>(file, Format);
            if (suites is null or { Count: 0 })
                throw new InvalidDataException($"{path} has no gates.");
            foreach (var (name, suite) in suites)
                Check(path, name, suite);
            return suites;
        }
        catch (JsonException fault)
        {
            throw new InvalidDataException($"{path}, line {fault.LineNumber + 1}: {PlaceOf(fault)}{fault.Message.Split([" Path: ", " Consider updating"], StringSplitOptions.None)[0]}", fault);
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            throw new InvalidDataException($"{path} can't be read: {failure.Message}", failure);
        }
    }

    public static void Write(string path, IReadOnlyDictionary<string, GateSuite> suites) => File.WriteAllText(path, JsonSerializer.Serialize(suites, Format) + "\n");

    // From the root, which is "$": the suite and its part.
    private static string PlaceOf(JsonException fault) => fault.Path?.TrimStart('$', '.') is { Length: > 0 } place ? $"{place}: " : "";

    private static void Check(string path, string name, GateSuite suite)
    {
        if (name is "" or "." or ".." || Path.GetFileName(name) != name)
            throw new InvalidDataException($"{path}: '{name}' can't be a suite's name, because its results are in a file of that name.");
        if (suite is null or { Gates: null or { Count: 0 } })
            throw new InvalidDataException($"{path}: '{name}' has no gates.");
        if (suite.Gates.Contains(null) || suite.Classes.Contains(null) || suite.Arguments.Contains(null) || suite.Results.Contains(null))
            throw new InvalidDataException($"{path}: a list of '{name}' has a null.");
        if (suite.Rounds < 1)
            throw new InvalidDataException($"{path}: '{name}' has {suite.Rounds} rounds.");
        foreach (var gate in suite.Gates)
        {
            if (gate.Max is null == gate.Min is null)
                throw new InvalidDataException($"{path}: the gate '{gate.Name}' of '{name}' needs either a max or a min.");
            if (gate.Messages < 1)
                throw new InvalidDataException($"{path}: the gate '{gate.Name}' of '{name}' has {gate.Messages} messages.");
        }

        if (suite.Gates.CountBy(gate => gate.Name, StringComparer.Ordinal).FirstOrDefault(count => count.Value > 1) is { Key: { } twice })
            throw new InvalidDataException($"{path}: '{name}' has the gate '{twice}' twice.");
    }
}
