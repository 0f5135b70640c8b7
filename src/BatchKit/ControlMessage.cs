using System.Diagnostics.CodeAnalysis;
using System.Text;
using System.Text.Unicode;

namespace BatchKit;

/// <summary>Tells the last hop what to do with a connection: join a group, leave a group, or close.</summary>
/// <remarks>
/// It is sent as a message of kind <see cref="MessageKind.Control"/>. It keeps its order with the connection's output, across a broker too: the
/// connection gets everything that was written before it, then it takes effect. Its payload is one byte with the number of the operation,
/// followed by the group's name in UTF-8.
/// </remarks>
public readonly record struct ControlMessage
{
    private ControlMessage(ControlOperation operation, string group)
    {
        Operation = operation;
        Group = group;
    }

    /// <summary>What the last hop does.</summary>
    public ControlOperation Operation { get; }

    /// <summary>The group's name; empty for <see cref="ControlOperation.Close"/>.</summary>
    public string Group { get; }

    /// <summary>Closes the connection after the output that was written before.</summary>
    public static ControlMessage Close { get; } = new(ControlOperation.Close, string.Empty);

    /// <summary>Adds the connection to a group.</summary>
    /// <inheritdoc cref="OutputHandle.Named" path="/exception"/>
    public static ControlMessage JoinGroup(string group)
    {
        OutputHandle.ThrowIfNoName(group);
        return new ControlMessage(ControlOperation.JoinGroup, group);
    }

    /// <summary>Removes the connection from a group.</summary>
    /// <inheritdoc cref="OutputHandle.Named" path="/exception"/>
    public static ControlMessage LeaveGroup(string group)
    {
        OutputHandle.ThrowIfNoName(group);
        return new ControlMessage(ControlOperation.LeaveGroup, group);
    }

    /// <summary>Encodes the message's payload.</summary>
    public byte[] ToPayload() => [(byte)Operation, .. Encoding.UTF8.GetBytes(Group ?? string.Empty)];

    /// <summary>Decodes a control message's payload.</summary>
    /// <returns>False when the operation is unknown, a group's name is missing, too long or not UTF-8, or <see cref="ControlOperation.Close"/> has one. The last hop ignores and counts such a message.</returns>
    public static bool TryRead(ReadOnlySpan<byte> payload, [MaybeNullWhen(false)] out ControlMessage control)
    {
        control = default;
        if (payload.IsEmpty)
            return false;
        var operation = (ControlOperation)payload[0];
        var name = payload[1..];
        var isKnown = operation is ControlOperation.JoinGroup or ControlOperation.LeaveGroup ? name.Length is > 0 and <= OutputHandle.MaxNameBytes && Utf8.IsValid(name)
            : operation is ControlOperation.Close && name.IsEmpty;
        if (!isKnown)
            return false;
        control = new ControlMessage(operation, Encoding.UTF8.GetString(name));
        return true;
    }
}

/// <summary>What a control message tells the last hop to do.</summary>
public enum ControlOperation
{
    /// <summary>Add the connection to the group: it gets the group's output from here on.</summary>
    JoinGroup = 1,

    /// <summary>Remove the connection from the group.</summary>
    LeaveGroup = 2,

    /// <summary>Close the connection after the output that was written before.</summary>
    Close = 3,
}
