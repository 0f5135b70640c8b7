using System.Buffers.Binary;

namespace BatchKit.Broadcast.Telnet;

/// <summary>The window's size (NAWS, RFC 1073).</summary>
internal static class WindowSizes
{
    /// <param name="body">Two numbers of 16 bits.</param>
    /// <param name="width">In characters; 0 when it is not known.</param>
    /// <param name="height">In lines; 0 when it is not known.</param>
    public static bool TryRead(ReadOnlySpan<byte> body, out int width, out int height)
    {
        (width, height) = (0, 0);
        if (body.Length != 2 * sizeof(ushort))
            return false;
        width = BinaryPrimitives.ReadUInt16BigEndian(body);
        height = BinaryPrimitives.ReadUInt16BigEndian(body[sizeof(ushort)..]);
        return true;
    }
}
