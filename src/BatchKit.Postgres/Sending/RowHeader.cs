using System.Collections.Immutable;
using System.Globalization;
using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Sending;

/// <summary>The columns that a message's header fills, read once for each header.</summary>
internal sealed class RowHeader
{
    // A hundred years, far below the limit of the server's timestamps.
    private const long MaxDelayMilliseconds = 36_500L * 24 * 60 * 60 * 1000;
    private const int MaxQuotedCharacters = 40;

    /// <summary>The priority, negated, so that indexes ascend.</summary>
    public short Rank { get; private set; }

    public long DelayMilliseconds { get; private set; }

    public string? UniqueKey { get; private set; }

    public string? Key { get; private init; }

    /// <summary>The stored header, without the properties that have columns of their own; null when nothing else is left.</summary>
    public byte[]? Stored { get; private set; }

    /// <summary>Reads a header.</summary>
    /// <returns>Null when the header can't be stored.</returns>
    public static RowHeader? Read(MessageHeader header, out string? refusal)
    {
        var row = new RowHeader { Key = header.Key };
        var properties = header.Properties.IsDefault ? [] : header.Properties;
        refusal = string.IsNullOrEmpty(header.Key) || QueueLimits.RefuseKey(header.Key) is not { } keyReason ? null : $"A message's key {keyReason}";
        var known = 0;
        foreach (var (name, value) in properties)
        {
            if (row.TryRead(name, value, ref refusal))
                known++;
        }

        if (refusal is not null)
            return null;
        row.Stored = Store(header, properties, known);
        return row;
    }

    private static byte[]? Store(MessageHeader header, ImmutableArray<KeyValuePair<string, string>> properties, int known)
    {
        var excluded = header.ExcludedConnections.IsDefault ? [] : header.ExcludedConnections;
        if (header.Kind == MessageKind.Output && header.Key is null && header.ContentType is null && excluded.IsEmpty && properties.Length == known)
            return null;
        if (known == 0)
            return StoredHeader.Write(header);
        return StoredHeader.Write(new MessageHeader
        {
            Kind = header.Kind,
            ExcludedConnections = excluded,
            Key = header.Key,
            ContentType = header.ContentType,
            Properties = properties.RemoveAll(static property => IsKnown(property.Key)),
        });
    }

    private static bool IsKnown(string name) => name is QueueMessageHeader.DelayProperty or QueueMessageHeader.PriorityProperty or QueueMessageHeader.UniqueKeyProperty;

    private static string Quote(string value) => value.Length <= MaxQuotedCharacters ? $"'{value}'" : $"'{value[..MaxQuotedCharacters]}…'";

    private bool TryRead(string name, string value, ref string? refusal)
    {
        switch (name)
        {
            case QueueMessageHeader.DelayProperty:
                if (long.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var delay) && delay <= MaxDelayMilliseconds)
                    DelayMilliseconds = delay;
                else
                    refusal ??= $"A message's {name} ({Quote(value)}) is not a number of milliseconds from 0 to {MaxDelayMilliseconds}.";
                return true;
            case QueueMessageHeader.PriorityProperty:
                if (int.TryParse(value, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var priority) && priority is >= -short.MaxValue and <= short.MaxValue)
                    Rank = (short)-priority;
                else
                    refusal ??= $"A message's {name} ({Quote(value)}) is not a number from {-short.MaxValue} to {short.MaxValue}.";
                return true;
            case QueueMessageHeader.UniqueKeyProperty:
                UniqueKey = value;
                if (QueueLimits.RefuseQueue(value) is { } reason)
                    refusal ??= $"A message's {name} {reason}";
                return true;
            default:
                return false;
        }
    }
}
