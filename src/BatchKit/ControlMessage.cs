using System.Diagnostics.CodeAnalysis;
using System.Text;

namespace BatchKit;

/// <summary>An order to the last hop about a connection: join a group, leave one, close.</summary>
/// <remarks>
/// It travels as a message of kind <see cref="MessageKind.Control"/> and keeps the order of the output around it, across a broker too:
/// what was written to the connection before it arrives before it takes effect. Its payload is the operation's number in one byte,
/// followed by the group's name in UTF-8.
/// </remarks>
public readonly record struct ControlMessage
{
    private ControlMessage(ControlOperation operation, string group)
    {
        Operation = operation;
        Group = group;
    }

    /// <summary>What is asked for.</summary>
    public ControlOperation Operation { get; }

    /// <summary>The group's name; empty for <see cref="ControlOperation.Close"/>.</summary>
    public string Group { get; }

    /// <summary>Closes the connection after what was written before.</summary>
    public static ControlMessage Close { get; } = new(ControlOperation.Close, string.Empty);

    /// <summary>The connection joins a group.</summary>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    public static ControlMessage JoinGroup(string group)
    {
        ArgumentException.ThrowIfNullOrEmpty(group);
        return new ControlMessage(ControlOperation.JoinGroup, group);
    }

    /// <summary>The connection leaves a group.</summary>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    public static ControlMessage LeaveGroup(string group)
    {
        ArgumentException.ThrowIfNullOrEmpty(group);
        return new ControlMessage(ControlOperation.LeaveGroup, group);
    }

    /// <summary>The message's payload.</summary>
    public byte[] ToPayload() => [(byte)Operation, .. Encoding.UTF8.GetBytes(Group ?? string.Empty)];

    /// <summary>Reads a control message's payload.</summary>
    /// <returns>False when it is not one: an unknown operation, a group missing or superfluous. The caller ignores it, counted.</returns>
    public static bool TryRead(ReadOnlySpan<byte> payload, [MaybeNullWhen(false)] out ControlMessage control)
    {
        control = default;
        if (payload.IsEmpty)
            return false;
        var operation = (ControlOperation)payload[0];
        var isKnown = operation is ControlOperation.JoinGroup or ControlOperation.LeaveGroup ? payload.Length > 1
            : operation is ControlOperation.Close && payload.Length == 1;
        if (!isKnown)
            return false;
        control = new ControlMessage(operation, Encoding.UTF8.GetString(payload[1..]));
        return true;
    }
}
