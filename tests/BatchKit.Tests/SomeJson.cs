using System.Text.Json.Serialization;

namespace BatchKit.Tests;

internal sealed record ChatLine(string From, string Text);

internal readonly record struct Moved(int Room, int Count);

internal sealed record Unregistered(int Number);

internal static class Other
{
    internal sealed record ChatLine(int Number);
}

[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
[JsonSerializable(typeof(ChatLine))]
[JsonSerializable(typeof(Moved))]
[JsonSerializable(typeof(Other.ChatLine), TypeInfoPropertyName = "OtherChatLine")]
internal sealed partial class SomeJson : JsonSerializerContext;
