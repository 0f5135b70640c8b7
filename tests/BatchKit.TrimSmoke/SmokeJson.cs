using System.Text.Json.Serialization;

namespace BatchKit.TrimSmoke;

internal sealed record Coins(int Count);

/// <summary>What a program of its own would generate for its messages.</summary>
[JsonSerializable(typeof(Coins))]
internal sealed partial class SmokeJson : JsonSerializerContext;
