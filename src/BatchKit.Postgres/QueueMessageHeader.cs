using System.Collections.Immutable;
using System.Globalization;

namespace BatchKit.Postgres;

/// <summary>Makes headers that say what a queue in PostgreSQL knows of a message: when, how urgent, and whether it is there already.</summary>
/// <remarks>They travel as <see cref="MessageHeader.Properties"/>, so they may be set by hand too, or come over another transport.</remarks>
public static class QueueMessageHeader
{
    /// <summary>The property with the delay in milliseconds.</summary>
    public const string DelayProperty = "batchkit-delay";

    /// <summary>The property with the priority, from -32,767 to 32,767; higher ones are claimed first.</summary>
    public const string PriorityProperty = "batchkit-priority";

    /// <summary>The property with the uniqueness key.</summary>
    public const string UniqueKeyProperty = "batchkit-unique-key";

    /// <summary>Makes a header; keep it and use it for as many messages as you like.</summary>
    /// <param name="delay">The message is not handled before that; at once by default. In an ordered queue its key waits with it.</param>
    /// <param name="priority">Higher ones are claimed first; 0 by default, from -32,767 to 32,767. Ignored by ordered queues.</param>
    /// <param name="uniqueKey">While a message of the queue with this key waits or is being handled, further ones are dropped; none by default. At most 1,024 UTF-8 bytes.</param>
    /// <param name="key">What an ordered queue keeps in order; none by default.</param>
    /// <exception cref="ArgumentOutOfRangeException">A value is outside its range.</exception>
    public static MessageHeader Create(TimeSpan? delay = null, int priority = 0, string? uniqueKey = null, string? key = null)
    {
        if (delay is { } time)
            ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero, nameof(delay));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(Math.Abs((long)priority), short.MaxValue, nameof(priority));
        var properties = ImmutableArray.CreateBuilder<KeyValuePair<string, string>>(3);
        if (delay is { } wait && wait > TimeSpan.Zero)
            properties.Add(new(DelayProperty, ((long)Math.Ceiling(wait.TotalMilliseconds)).ToString(CultureInfo.InvariantCulture)));
        if (priority != 0)
            properties.Add(new(PriorityProperty, priority.ToString(CultureInfo.InvariantCulture)));
        if (uniqueKey is not null)
            properties.Add(new(UniqueKeyProperty, uniqueKey));
        return new MessageHeader { Key = key, Properties = properties.ToImmutable() };
    }
}
