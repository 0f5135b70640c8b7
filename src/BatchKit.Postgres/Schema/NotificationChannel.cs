using System.Security.Cryptography;
using System.Text;

namespace BatchKit.Postgres.Schema;

/// <summary>The channel of a schema's notifications. A payload is a queue's number.</summary>
internal static class NotificationChannel
{
    // Channels are the whole database's and at most 63 bytes long, which a schema's name may have by itself: so they have a hash of it.
    public static string Of(Tables tables) => $"batchkit:{Convert.ToHexStringLower(SHA256.HashData(Encoding.UTF8.GetBytes(tables.Schema)).AsSpan(0, 8))}";
}
