using System.Text;
using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>A channel's name is the same in every process, and fits.</summary>
public sealed class NotificationChannelTests
{
    [Fact]
    public void A_schema_has_one_channel_in_every_process_and_version() =>
        Assert.Equal("batchkit:4052894d93495a43", NotificationChannel.Of(new Tables("batchkit")));

    [Fact]
    public void The_longest_schema_has_a_channel_that_fits() =>
        Assert.InRange(Encoding.UTF8.GetByteCount(NotificationChannel.Of(new Tables(new string('\u00f6', 31)))), 1, 63);

    [Fact]
    public void Two_schemas_have_two_channels() => Assert.NotEqual(NotificationChannel.Of(new Tables("a")), NotificationChannel.Of(new Tables("A")));
}
