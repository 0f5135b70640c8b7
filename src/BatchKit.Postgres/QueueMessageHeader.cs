using System.Collections.Immutable;
using System.Globalization;

namespace BatchKit.Postgres;

/// <summary>Creates headers with what a queue in PostgreSQL supports: a delay, a priority, a uniqueness key and an ordering key.</summary>
/// <remarks>Delay, priority and uniqueness key are <see cref="MessageHeader.Properties"/>, so you can set them yourself, and they cross other transports too.</remarks>
public static class QueueMessageHeader
{
    /// <summary>The name of the property with the delay in milliseconds.</summary>
    public const string DelayProperty = "batchkit-delay";

    /// <summary>The name of the property with the priority, from -32,767 to 32,767; higher priorities are claimed first.</summary>
    public const string PriorityProperty = "batchkit-priority";

    /// <summary>The name of the property with the uniqueness key.</summary>
    public const string UniqueKeyProperty = "batchkit-unique-key";

    /// <summary>Creates a header. You may use it for any number of messages.</summary>
    /// <param name="delay">How long to wait before the message may be handled; none by default. In an ordered queue, later messages with its key wait too.</param>
    /// <param name="priority">Higher priorities are claimed first; 0 by default, from -32,767 to 32,767. Ordered queues ignore it.</param>
    /// <param name="uniqueKey">While a message with this key waits in the queue or is being handled, further messages with it are dropped; none by default. At most 1,024 UTF-8 bytes.</param>
    /// <param name="key">An ordered queue keeps messages with the same key in order; none by default.</param>
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
