using System.Buffers;
using System.Buffers.Text;
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;

namespace BatchKit.Sessions;

/// <summary>A session's token: the node that has it, its number there, and a secret of 192 random bits. The number finds the session, and the secret is compared in constant time.</summary>
internal static class SessionToken
{
    public const int MaxBytes = 96;

    private const int SecretBytes = 24;
    private const byte Separator = (byte)'.';

    public static byte[] DrawSecret() => Base64Url.EncodeToUtf8(RandomNumberGenerator.GetBytes(SecretBytes));

    public static string Write(OutputHandle session, byte[] secret) =>
        string.Create(CultureInfo.InvariantCulture, $"{session.Node}.{session.Number & OutputHandle.MaxSequence}.{Encoding.ASCII.GetString(secret)}");

    /// <summary>Reads which session a token is of.</summary>
    /// <returns>False for what is no token.</returns>
    public static bool TryRead(ReadOnlySpan<byte> token, out OutputHandle session, out ReadOnlySpan<byte> secret)
    {
        session = default;
        secret = default;
        if (token.Length > MaxBytes || !TryReadNumber(ref token, OutputHandle.MaxNode, out var node) || !TryReadNumber(ref token, OutputHandle.MaxSequence, out var sequence) || sequence == 0)
            return false;
        session = OutputHandle.Connection((int)node, sequence);
        secret = token;
        return true;
    }

    private static bool TryReadNumber(ref ReadOnlySpan<byte> token, long most, out long number)
    {
        number = 0;
        var end = token.IndexOf(Separator);
        if (end < 1 || !SessionLine.TryReadNumber(token[..end], out number) || number > most)
            return false;
        token = token[(end + 1)..];
        return true;
    }
}
