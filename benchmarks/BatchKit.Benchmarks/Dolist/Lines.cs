using System.Text;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>What one <c>@dolist</c> writes: 1000 messages of 12 bytes unless <c>run</c> was told otherwise, the last of which ends with the end mark.</summary>
internal static class Lines
{
    public const int DefaultCount = 1000;

    public const int DefaultLineBytes = 12;

    public const byte EndMark = 3;

    public static int Count { get; } = RunSettings.Count ?? DefaultCount;

    public static int LineBytes { get; } = RunSettings.Size ?? DefaultLineBytes;

    public static int TotalBytes => Count * LineBytes;

    public static byte[][] All { get; } = [.. Enumerable.Range(1, Count).Select(Make)];

    /// <summary>Composes all lines by hand: what code without a library does at best.</summary>
    public static void CopyTo(Span<byte> buffer)
    {
        foreach (var line in All)
        {
            line.CopyTo(buffer);
            buffer = buffer[line.Length..];
        }
    }

    // The number is what the padding and a short line leave of it.
    private static byte[] Make(int number) => Encoding.ASCII.GetBytes($"item {number:00000}\r{(number == Count ? (char)EndMark : '\n')}".PadLeft(LineBytes, '.')[^LineBytes..]);
}
