using System.Globalization;
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

/// <summary>The number of this process as a node. It is part of every handle of its connections, so it never changes after it was read.</summary>
/// <remarks>
/// <para>A container has one for each buffer, keyed by the buffer's name, and for the unnamed buffer without a key too. It is <see cref="OutputBufferOptions.Node"/> when that is set. Otherwise the buffers of
/// a container share one: a number that was drawn at random and leased at the broker, or 0 when no buffer leases one.</para>
/// <para>An adapter leases <see cref="Candidate"/> at its broker when the host starts, before any hosted service starts. While the number is taken, it draws another, unless something has read
/// <see cref="Value"/> already. Thread-safe.</para>
/// </remarks>
public sealed class NodeNumber
{
    /// <summary>The smallest number that is drawn: 1,024. Smaller ones are free for you to set.</summary>
    public const int FirstLeased = 1024;

    // Guards the two fields below.
    private readonly Lock _lock = new();
    private int _number;
    private volatile bool _isFixed;

    /// <summary>Creates a number that is fixed.</summary>
    /// <param name="number">From 0 to <see cref="OutputHandle.MaxNode"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException">The number is outside its range.</exception>
    public NodeNumber(int number)
        : this(number, isFixed: true)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(number);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(number, OutputHandle.MaxNode);
    }

    private NodeNumber(int number, bool isFixed) => (_number, _isFixed) = (number, isFixed);

    /// <summary>The number. Reading it fixes it.</summary>
    public int Value
    {
        get
        {
            if (_isFixed)
                return _number;
            lock (_lock)
            {
                _isFixed = true;
                return _number;
            }
        }
    }

    /// <summary>The number, which <see cref="TryDrawAnother"/> may replace until it is fixed. Reading it does not fix it.</summary>
    public int Candidate
    {
        get
        {
            lock (_lock)
                return _number;
        }
    }

    /// <summary>Creates a number that was drawn at random, from <see cref="FirstLeased"/> up, and is not fixed.</summary>
    public static NodeNumber Draw() => new(DrawNumber(), isFixed: false);

    /// <summary>Replaces the number by another one that is drawn at random.</summary>
    /// <returns>False when the number is fixed.</returns>
    public bool TryDrawAnother()
    {
        lock (_lock)
        {
            if (!_isFixed)
                _number = DrawNumber();
            return !_isFixed;
        }
    }

    /// <summary>Fixes a number that was leased.</summary>
    /// <param name="number">A former <see cref="Candidate"/>.</param>
    /// <returns>False when the number has changed meanwhile.</returns>
    public bool TryFix(int number)
    {
        lock (_lock)
        {
            if (_number != number)
                return false;
            _isFixed = true;
            return true;
        }
    }

    private static int DrawNumber() => Random.Shared.Next(FirstLeased, OutputHandle.MaxNode + 1);
}

/// <summary>Another process holds this process's node number at the broker. The message names both.</summary>
/// <param name="message">A sentence that names both; see <see cref="Describe"/>.</param>
/// <param name="innerException">What the broker answered.</param>
public sealed class NodeTakenException(string message, Exception? innerException = null) : InvalidOperationException(message, innerException)
{
    private const int MaxNameCharacters = 30;

    /// <summary>Names this process as the holder of a number: its process, machine and program, the names shortened to 30 characters.</summary>
    /// <remarks>Adapters call it when they lease a number.</remarks>
    /// <param name="id">An id that no other holder in this process has.</param>
    public static string NameHolder(string id) =>
        string.Create(CultureInfo.InvariantCulture, $"process {Environment.ProcessId} on {Shorten(Environment.MachineName)} ({Shorten(AppDomain.CurrentDomain.FriendlyName)}) {id}");

    /// <summary>Describes in a sentence that another process has the number, and what to do about it.</summary>
    /// <remarks>Adapters call it when a number is taken.</remarks>
    /// <param name="node">The number.</param>
    /// <param name="holder">The process that has it.</param>
    /// <param name="own">This process.</param>
    /// <param name="patience">How long the broker takes at most to notice that a process has ended, such as <c>two of its heartbeats</c>.</param>
    public static string Describe(int node, string holder, string own, string patience) => string.Create(
        CultureInfo.InvariantCulture,
        $"Node {node} is held by {holder}, so {own} can't be node {node} too. Give each process another {nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.Node)}, or none, and a free number is leased. When the other process has just ended, wait until the broker has noticed, at most {patience}.{(IsSameProcess(holder, own) ? " Buffers of one process need a prefix each." : "")}");

    // The names of holders differ in their last word.
    private static bool IsSameProcess(string holder, string own) => own.LastIndexOf(' ') is > 0 and var end && holder.Contains(own[..end], StringComparison.Ordinal);

    private static string Shorten(string name) => name[..Math.Min(name.Length, MaxNameCharacters)];
}

/// <summary>The number that the buffers of a container share when they set none, and one of them leases it.</summary>
internal sealed class SharedNodeNumber
{
    public NodeNumber Number { get; } = NodeNumber.Draw();
}
