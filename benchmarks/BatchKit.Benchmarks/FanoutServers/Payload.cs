using System.Text.Json;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>The message of all broadcasts: 200 bytes as JSON, unless <c>run</c> was told otherwise.</summary>
internal sealed record Payload(string Channel, string Sender, int Number, string Text)
{
    public const int DefaultBytes = 200;

    public static int Bytes { get; } = RunSettings.Size ?? DefaultBytes;

    public static Payload Message { get; } = Make();

    public static byte[] Encoded { get; } = Message.Serialise();

    public byte[] Serialise() => JsonSerializer.SerializeToUtf8Bytes(this);

    private static Payload Make()
    {
        var empty = new Payload("public", "Guybrush", 10_000, string.Empty);
        return empty with { Text = new string('x', Bytes - empty.Serialise().Length) };
    }
}
