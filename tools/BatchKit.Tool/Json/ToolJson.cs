using System.Text.Json.Serialization;

namespace BatchKit.Tool.Json;

/// <summary>Writes the tool's JSON, in generated code.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase, WriteIndented = true)]
[JsonSerializable(typeof(CountsJson[]))]
[JsonSerializable(typeof(DeadJson[]))]
[JsonSerializable(typeof(ReplayedJson))]
[JsonSerializable(typeof(DeletedJson))]
internal sealed partial class ToolJson : JsonSerializerContext;
