using Microsoft.Extensions.Options;

namespace BatchKit.Postgres.Tests;

public sealed class PostgresOptionsTests
{
    [Fact]
    public void A_queue_may_have_shards_of_its_own()
    {
        var options = new PostgresOptions { Shards = 2, QueueShards = { ["weather"] = 8, ["npc"] = 0 } };

        OptionsRules.ThrowIfInvalid(new PostgresOptionsValidator(), options);

        Assert.Equal(8, options.ShardsOf("weather"));
        Assert.Equal(0, options.ShardsOf("npc"));
        Assert.Equal(2, options.ShardsOf("trade"));
    }

    [Theory]
    [InlineData(-1)]
    [InlineData(1025)]
    public void Shards_outside_their_range_are_refused_by_name(int shards)
    {
        var options = new PostgresOptions { QueueShards = { ["weather"] = shards } };

        var exception = Assert.Throws<OptionsValidationException>(() => OptionsRules.ThrowIfInvalid(new PostgresOptionsValidator(), options));

        Assert.Contains($"QueueShards of 'weather' ({shards})", exception.Message, StringComparison.Ordinal);
    }
}
