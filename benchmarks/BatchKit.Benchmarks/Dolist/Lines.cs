using System.Text;

namespace BatchKit.Benchmarks.Dolist;

/// <summary>What one <c>@dolist</c> writes: 1000 messages of 12 bytes, the last of which ends with the end mark.</summary>
internal static class Lines
{
    public const int Count = 1000;

    public const int LineBytes = 12;

    public const int TotalBytes = Count * LineBytes;

    public const byte EndMark = 3;

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

    private static byte[] Make(int number) => Encoding.ASCII.GetBytes($"item {number:00000}\r{(number == Count ? (char)EndMark : '\n')}");
}
