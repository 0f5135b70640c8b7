using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>Generators of texts.</summary>
internal static class SomeTexts
{
    private static readonly string[] Pieces = ["a", "Z", "0", " ", "/", "$", "'", "\"", "\\", "~", "é", "ß", "\u0800", "€", "中", "\uFEFF", "\uFFFD", "\U00010000", "😀"];

    // A receiver may take these, and a topic filter is full of them.
    private static readonly string[] ReceivedPieces = [.. Pieces, "\u0001", "\r\n", "\u007F", "\u009F", "\uFFFE", "\uFDD0", "+", "#"];

    /// <summary>What may be written, up to 65,535 bytes, often of a length where the length before it takes another byte.</summary>
    public static Gen<string> Written { get; } = Gen.Frequency(
        (12, Of(Pieces)),
        (2, Gen.Choose(110, 130).Select(static length => new string('x', length))),
        (1, Gen.Elements(new string('x', 16_380), new string('é', 8_190), new string('x', 65_535), new string('€', 21_845))));

    /// <summary>What may be received, among it what must not be written.</summary>
    public static Gen<string> Received { get; } = Gen.Frequency((12, Of(ReceivedPieces)), (1, Written));

    /// <summary>A topic to publish to, never the broker's own.</summary>
    public static Gen<string> Topics { get; } = Written.Select(static text => text.Length is > 0 and < 20_000 && text[0] != '$' ? text : "t" + text[..Math.Min(text.Length, 100)]);

    public static Gen<string?> Optional(Gen<string> texts) => Gen.OneOf(Gen.Constant((string?)null), texts.Select(static text => (string?)text));

    private static Gen<string> Of(string[] pieces) => Gen.Elements(pieces).ArrayOf().Select(string.Concat);
}
