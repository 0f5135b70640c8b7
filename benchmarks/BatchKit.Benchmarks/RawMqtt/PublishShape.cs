using System.Text;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.RawMqtt;

/// <summary>What is published: how it is delivered, and how much it says about itself.</summary>
/// <param name="Quality">QoS 0 or 1.</param>
/// <param name="Properties">How many user properties, at most 5.</param>
internal readonly record struct PublishShape(int Quality, int Properties)
{
    public const int DefaultPayloadBytes = 100;

    private static readonly KeyValuePair<string, string>[] AllPairs =
    [
        new("room", "hall-12"), new("item", "lamp-4711"), new("property", "brightness"), new("unit", "percent"), new("origin", "gameloop"),
    ];

    public static int PayloadBytes { get; } = RunSettings.Size ?? DefaultPayloadBytes;

    public KeyValuePair<string, string>[] PropertyPairs => AllPairs[..Properties];

    /// <summary>Printable, because one of the ways reads lines.</summary>
    public static byte[] MakePayload() => Encoding.ASCII.GetBytes(new string('x', PayloadBytes));

    /// <summary>Names are equally long.</summary>
    public static string TopicAt(int index) => $"bench/{index:00000}";
}
