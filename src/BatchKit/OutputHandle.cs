using System.Runtime.CompilerServices;
using System.Text;

namespace BatchKit;

/// <summary>Where output goes: one connection, which has a number, or a named destination such as a group, topic or queue.</summary>
/// <remarks>
/// An immutable value: compare it, use it as a key, and keep it for as long as you like. A connection's number contains the node that the connection is on,
/// so it never moves: a client that reconnects gets a new handle. <c>default</c> is no destination, and a write to it throws.
/// </remarks>
public readonly struct OutputHandle : IEquatable<OutputHandle>
{
    /// <summary>The highest node number: 65,535.</summary>
    public const int MaxNode = (1 << 16) - 1;

    /// <summary>The highest sequence of a connection on its node: 2^47 - 1.</summary>
    public const long MaxSequence = (1L << SequenceBits) - 1;

    /// <summary>The longest name in UTF-8 bytes: 65,535, the limit of an MQTT topic (MQTT 5, section 1.5.4).</summary>
    public const int MaxNameBytes = ushort.MaxValue;

    private const int SequenceBits = 47;

    // For a name: its hash code, so that a look-up does not hash the string again (39 ns against 17 ns measured).
    private readonly long _number;

    private OutputHandle(long number, string? name)
    {
        _number = number;
        Name = name;
    }

    /// <summary>The destination's name, or null for a connection.</summary>
    public string? Name { get; }

    /// <summary>The connection's number, which contains its node; zero for a named destination.</summary>
    public long Number => Name is null ? _number : 0;

    /// <summary>The node that the connection is on, from 0 to <see cref="MaxNode"/>; zero for a named destination.</summary>
    public int Node => Name is null ? (int)(_number >> SequenceBits) : 0;

    /// <summary>Equal for equal handles, and different for most others.</summary>
    internal long Key => _number;

    /// <summary>True for a connection, false for a named destination and for <c>default</c>.</summary>
    public bool IsConnection => Name is null && _number != 0;

    /// <summary>True for <c>default</c>, which names no destination.</summary>
    public bool IsNone => Name is null && _number == 0;

    /// <summary>Creates the handle of a connection.</summary>
    /// <param name="node">The node that the connection is on, from 0 to <see cref="MaxNode"/>.</param>
    /// <param name="sequence">The connection's number on that node, from 1 to <see cref="MaxSequence"/>. Never reuse one.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="node"/> or <paramref name="sequence"/> is outside its range.</exception>
    public static OutputHandle Connection(int node, long sequence)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(node);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(node, MaxNode);
        ArgumentOutOfRangeException.ThrowIfLessThan(sequence, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(sequence, MaxSequence);
        return new OutputHandle(((long)node << SequenceBits) | sequence, name: null);
    }

    /// <summary>Creates the handle of a connection from its <see cref="Number"/>.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The number is not positive.</exception>
    public static OutputHandle Connection(long number)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(number, 1);
        return new OutputHandle(number, name: null);
    }

    /// <summary>Creates the handle of a named destination: a group, a topic or a queue. Names are case-sensitive.</summary>
    /// <exception cref="ArgumentException">The name is empty, longer than <see cref="MaxNameBytes"/> in UTF-8, or not valid Unicode.</exception>
    public static OutputHandle Named(string name)
    {
        ThrowIfNoName(name);
        return new OutputHandle(name.GetHashCode(StringComparison.Ordinal), name);
    }

    /// <inheritdoc/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool Equals(OutputHandle other) =>
        _number == other._number && (ReferenceEquals(Name, other.Name) || string.Equals(Name, other.Name, StringComparison.Ordinal));

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is OutputHandle other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => _number.GetHashCode();

    /// <summary>The name, or <c>node:sequence</c> for a connection.</summary>
    public override string ToString() => Name ?? (IsNone ? "(none)" : $"{Node}:{_number & MaxSequence}");

    /// <summary>True when both are the same destination.</summary>
    public static bool operator ==(OutputHandle left, OutputHandle right) => left.Equals(right);

    /// <summary>True when they are different destinations.</summary>
    public static bool operator !=(OutputHandle left, OutputHandle right) => !left.Equals(right);

    /// <summary>Checks a destination's name.</summary>
    /// <exception cref="ArgumentException">As <see cref="Named"/> throws.</exception>
    internal static void ThrowIfNoName(string name, [CallerArgumentExpression(nameof(name))] string? parameter = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(name, parameter);
        // UTF-8 would replace each half by the same character, so that names that differ would be one name at the broker.
        if (HasHalfPair(name))
            throw new ArgumentException("The name is not valid Unicode: it has half of a surrogate pair. Remove it.", parameter);
        if (name.Length > MaxNameBytes / 3 && Encoding.UTF8.GetByteCount(name) is > MaxNameBytes and var bytes)
            throw new ArgumentException($"The name has {bytes} UTF-8 bytes, more than {nameof(MaxNameBytes)} ({MaxNameBytes}). Use a shorter name.", parameter);
    }

    private static bool HasHalfPair(ReadOnlySpan<char> name)
    {
        while (name.IndexOfAnyInRange('\ud800', '\udfff') is >= 0 and var index)
        {
            if (index + 1 == name.Length || !char.IsSurrogatePair(name[index], name[index + 1]))
                return true;
            name = name[(index + 2)..];
        }

        return false;
    }
}
