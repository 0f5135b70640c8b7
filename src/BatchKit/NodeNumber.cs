using System.Globalization;

namespace BatchKit;

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
