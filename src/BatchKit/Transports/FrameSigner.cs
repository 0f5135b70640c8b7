using System.Collections.Immutable;
using System.Security.Cryptography;

namespace BatchKit.Transports;

/// <summary>Signs frames and verifies them, by HMAC-SHA256 with a key that senders and receivers share. Use it when others may write to the broker.</summary>
/// <remarks>
/// <para>A signed frame is the three bytes <c>BKS</c>, a byte with the version 1, the 32 bytes of the HMAC, and the frame. The HMAC is that of the first four bytes and of the frame.</para>
/// <para>The first key signs; every key verifies. To change a key without a stop, add the new key as the second on all processes, then move it to the front on all, then remove the old key.</para>
/// <para>A signature shows that a process with the key wrote the frame. It hides nothing, and it does not stop someone from repeating a frame: receivers drop repeats by their numbers for
/// <see cref="BatchReceiverOptions.ProducerExpiry"/>, but a receiver that starts again knows no number, and the destination is not under the signature, so a frame for one node is valid at another. All members are
/// thread-safe.</para>
/// </remarks>
public sealed class FrameSigner
{
    /// <summary>The shortest key in bytes.</summary>
    public const int MinKeyBytes = 32;

    /// <summary>The bytes that a signature adds in front of a frame.</summary>
    public const int OverheadBytes = PrefixBytes + HMACSHA256.HashSizeInBytes;

    private const int PrefixBytes = 4;

    private readonly ImmutableArray<byte[]> _keys;

    /// <summary>Creates a signer.</summary>
    /// <param name="keys">At least one, each of at least <see cref="MinKeyBytes"/> random bytes. They are copied.</param>
    /// <exception cref="ArgumentException">There is no key, or one is too short.</exception>
    public FrameSigner(params IEnumerable<byte[]> keys)
    {
        ArgumentNullException.ThrowIfNull(keys);
        _keys = [.. keys.Select(static key => (byte[])key.Clone())];
        if (_keys.IsEmpty || _keys.Any(static key => key.Length < MinKeyBytes))
            throw new ArgumentException($"Give at least one key, each of at least {MinKeyBytes} random bytes.", nameof(keys));
    }

    private static ReadOnlySpan<byte> Prefix => [(byte)'B', (byte)'K', (byte)'S', 1];

    /// <summary>Creates the signer that a buffer's options name.</summary>
    /// <returns>Null when they name no key: frames are not signed, and every frame is accepted.</returns>
    public static FrameSigner? From(OutputBufferOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.FrameKeys.Count == 0 ? null : new FrameSigner(options.FrameKeys);
    }

    /// <summary>Writes the signature of a frame that lies <see cref="OverheadBytes"/> behind the start.</summary>
    internal void Sign(Span<byte> signed)
    {
        Prefix.CopyTo(signed);
        Compute(_keys[0], signed[OverheadBytes..], signed[PrefixBytes..OverheadBytes]);
    }

    /// <summary>Verifies a frame.</summary>
    /// <returns>False when it is not signed by any of the keys.</returns>
    internal bool TryVerify(ReadOnlyMemory<byte> signed, out ReadOnlyMemory<byte> frame)
    {
        frame = default;
        if (signed.Length < OverheadBytes || !signed.Span.StartsWith(Prefix))
            return false;
        var signature = signed.Span[PrefixBytes..OverheadBytes];
        Span<byte> expected = stackalloc byte[HMACSHA256.HashSizeInBytes];
        foreach (var key in _keys)
        {
            Compute(key, signed.Span[OverheadBytes..], expected);
            if (!CryptographicOperations.FixedTimeEquals(expected, signature))
                continue;
            frame = signed[OverheadBytes..];
            return true;
        }

        return false;
    }

    internal static bool IsSigned(ReadOnlySpan<byte> frame) => frame.StartsWith(Prefix[..^1]);

    private static void Compute(byte[] key, ReadOnlySpan<byte> frame, Span<byte> hash)
    {
        using var hmac = IncrementalHash.CreateHMAC(HashAlgorithmName.SHA256, key);
        hmac.AppendData(Prefix);
        hmac.AppendData(frame);
        hmac.GetHashAndReset(hash);
    }
}
