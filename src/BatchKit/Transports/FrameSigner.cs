using System.Buffers.Binary;
using System.Collections.Immutable;
using System.Security.Cryptography;

namespace BatchKit.Transports;

/// <summary>Signs frames and verifies them, by HMAC-SHA256 with a key that senders and receivers share. Use it when others may write to the broker.</summary>
/// <remarks>
/// <para>A signed frame is the three bytes <c>BKS</c>, a byte with the version 2, the time, the destination, the 32 bytes of the HMAC, and the frame. The HMAC is that of all other bytes.</para>
/// <para>The first key signs; every key verifies. To change a key without a stop, add the new key as the second on all processes, then move it to the front on all, then remove the old key.</para>
/// <para>A signature shows that a process with the key wrote the frame, when, and for which node or for all. It hides nothing. A frame that somebody repeats is rejected at another node, and when it is older than
/// <see cref="BatchReceiverOptions.MaxFrameAge"/>; until then the receiver drops it by its number, but a receiver that starts again knows no number. All members are thread-safe.</para>
/// </remarks>
public sealed class FrameSigner
{
    /// <summary>The shortest key in bytes.</summary>
    public const int MinKeyBytes = 32;

    /// <summary>The bytes that a signature adds in front of a frame.</summary>
    public const int OverheadBytes = HeaderBytes + HMACSHA256.HashSizeInBytes;

    private const int PrefixBytes = 4;
    private const int HeaderBytes = PrefixBytes + sizeof(long) + sizeof(int);
    private const int AllNodes = -1;

    private readonly ImmutableArray<byte[]> _keys;

    /// <summary>Creates a signer.</summary>
    /// <param name="keys">At least one, each of at least <see cref="MinKeyBytes"/> random bytes. They are copied.</param>
    /// <exception cref="ArgumentException">There is no key, or one is null or too short.</exception>
    public FrameSigner(params IEnumerable<byte[]> keys)
    {
        ArgumentNullException.ThrowIfNull(keys);
        _keys = [.. keys.Select(static key => (byte[]?)key?.Clone() ?? [])];
        if (_keys.IsEmpty || _keys.Any(static key => key.Length < MinKeyBytes))
            throw new ArgumentException($"Give at least one key, each of at least {MinKeyBytes} random bytes.", nameof(keys));
    }

    /// <summary>The clock of the times in the signatures; the system's by default.</summary>
    public TimeProvider TimeProvider { get; init; } = TimeProvider.System;

    private static ReadOnlySpan<byte> Prefix => [(byte)'B', (byte)'K', (byte)'S', 2];

    /// <summary>Creates the signer that a buffer's options name.</summary>
    /// <param name="options">The buffer's options.</param>
    /// <param name="timeProvider">The clock of the times in the signatures; the system's when null.</param>
    /// <returns>Null when they name no key: frames are not signed, and every frame is accepted.</returns>
    public static FrameSigner? From(OutputBufferOptions options, TimeProvider? timeProvider = null)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.FrameKeys.Count == 0 ? null : new FrameSigner(options.FrameKeys) { TimeProvider = timeProvider ?? TimeProvider.System };
    }

    /// <summary>Writes the signature of a frame that lies <see cref="OverheadBytes"/> behind the start.</summary>
    internal void Sign(Span<byte> signed, FrameDestination destination)
    {
        Prefix.CopyTo(signed);
        BinaryPrimitives.WriteInt64LittleEndian(signed[PrefixBytes..], TimeProvider.GetUtcNow().ToUnixTimeMilliseconds());
        BinaryPrimitives.WriteInt32LittleEndian(signed[(PrefixBytes + sizeof(long))..], destination.IsAll ? AllNodes : destination.Node);
        Compute(_keys[0], signed, signed[HeaderBytes..OverheadBytes]);
    }

    /// <summary>Verifies a frame.</summary>
    /// <param name="signed">The frame with its signature.</param>
    /// <param name="node">The node that received it; null when it is not known, and any destination is right.</param>
    /// <param name="now">The time at the receiver.</param>
    /// <param name="maxAge">How far that may be from the time in the signature.</param>
    /// <param name="frame">The frame, when it is genuine.</param>
    /// <returns>Why it is not genuine; null when it is.</returns>
    internal string? FindFault(ReadOnlyMemory<byte> signed, int? node, DateTimeOffset now, TimeSpan maxAge, out ReadOnlyMemory<byte> frame)
    {
        frame = default;
        var bytes = signed.Span;
        if (bytes.Length < OverheadBytes || !bytes.StartsWith(Prefix) || !IsSignedByAny(bytes))
            return "it is not signed with a key of this receiver";
        var destination = BinaryPrimitives.ReadInt32LittleEndian(bytes[(PrefixBytes + sizeof(long))..]);
        if (destination != AllNodes && node is not null && destination != node)
            return "it is signed for another node";
        var age = (Int128)now.ToUnixTimeMilliseconds() - BinaryPrimitives.ReadInt64LittleEndian(bytes[PrefixBytes..]);
        if (Int128.Abs(age) > (Int128)maxAge.TotalMilliseconds)
            return $"the time in its signature differs from this receiver's by more than {nameof(BatchReceiverOptions.MaxFrameAge)}";
        frame = signed[OverheadBytes..];
        return null;
    }

    internal static bool IsSigned(ReadOnlySpan<byte> frame) => frame.StartsWith(Prefix[..^1]);

    private bool IsSignedByAny(ReadOnlySpan<byte> signed)
    {
        Span<byte> expected = stackalloc byte[HMACSHA256.HashSizeInBytes];
        foreach (var key in _keys)
        {
            Compute(key, signed, expected);
            if (CryptographicOperations.FixedTimeEquals(expected, signed[HeaderBytes..OverheadBytes]))
                return true;
        }

        return false;
    }

    private static void Compute(byte[] key, ReadOnlySpan<byte> signed, Span<byte> hash)
    {
        using var hmac = IncrementalHash.CreateHMAC(HashAlgorithmName.SHA256, key);
        hmac.AppendData(signed[..HeaderBytes]);
        hmac.AppendData(signed[OverheadBytes..]);
        hmac.GetHashAndReset(hash);
    }
}
