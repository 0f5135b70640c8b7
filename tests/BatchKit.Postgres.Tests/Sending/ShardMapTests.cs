using BatchKit.Postgres.Sending;

namespace BatchKit.Postgres.Tests.Sending;

public sealed class ShardMapTests
{
    [Theory]
    [InlineData(null, 64)]
    [InlineData("", 64)]
    [InlineData("npc:1", 64)]
    [InlineData("żółw 🐢", 1)]
    public void A_key_has_one_shard_within_the_range(string? key, int shards)
    {
        var shard = ShardMap.ShardOf(key, shards);

        Assert.InRange(shard, 0, shards - 1);
        Assert.Equal(shard, ShardMap.ShardOf(key, shards));
    }

    [Fact]
    public void The_hash_never_changes()
    {
        // FNV-1a's published test vectors: rows that are stored must be found by later versions.
        Assert.Equal(unchecked((int)(0xbf9cf968u % 1024)), ShardMap.ShardOf("foobar", 1024));
        Assert.Equal(unchecked((int)(0x811c9dc5u % 1024)), ShardMap.ShardOf(null, 1024));
    }
}
