using System.Text;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>A row of the messages' table, as a test looks at it.</summary>
internal sealed record StoredRow(string Queue, short Rank, double? DelaySeconds, short? Shard, string? Key, string? UniqueKey, byte[]? Header, byte[] Payload)
{
    public string Text => Encoding.UTF8.GetString(Payload);
}
