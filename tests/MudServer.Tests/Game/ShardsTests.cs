using MudServer.Game;

namespace MudServer.Tests.Game;

public sealed class ShardsTests
{
    [Theory]
    [InlineData("Ana")]
    [InlineData("Bob")]
    [InlineData("Cai")]
    [InlineData("Dee")]
    public void A_name_has_the_same_shard_in_any_case(string name)
    {
        Assert.Equal(Shards.Of(name, 7), Shards.Of(name.ToUpperInvariant(), 7));
        Assert.InRange(Shards.Of(name, 7), 1, 7);
    }

    [Fact]
    public void Names_are_spread_evenly()
    {
        var counts = Enumerable.Range(0, 10_000).CountBy(number => Shards.Of($"Player{number}", 4)).Select(count => count.Value).ToList();

        Assert.Equal(4, counts.Count);
        Assert.All(counts, count => Assert.InRange(count, 2000, 3000));
    }

    [Fact]
    public void One_game_owns_all()
    {
        var shards = new Shards(home: 1, count: 1);

        Assert.True(shards.Owns(shards.Of("Ana")));
    }

    [Fact]
    public void One_of_two_owns_what_it_was_given()
    {
        var shards = Shards.Parse("2/2");

        shards.SetOwned(2, isOwned: true);

        Assert.Equal([2], shards.Owned);
        Assert.Equal((2, 2), (shards.Home, shards.Count));
    }
}
