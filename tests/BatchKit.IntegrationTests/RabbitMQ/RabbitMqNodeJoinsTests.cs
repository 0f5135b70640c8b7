using System.Text;
using BatchKit.RabbitMQ;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>Which groups a node may lack, and the keys of groups. Needs no broker.</summary>
public sealed class RabbitMqNodeJoinsTests
{
    private readonly RabbitMqNodeJoins _joins = new();

    [Fact]
    public void A_node_may_lack_a_group_from_the_join_until_it_has_confirmed_the_joins_frame()
    {
        var before = _joins.MayLack("hall");
        _joins.Begin(["hall"], frame: 1);
        var meanwhile = _joins.MayLack("hall");

        var isConfirmedByNode = _joins.Confirm(frame: 1);

        Assert.Equal((false, true, false), (before, meanwhile, _joins.MayLack("hall")));
        Assert.False(isConfirmedByNode);
        Assert.True(_joins.Settle(["hall"], frame: 1, moment: 2));
    }

    [Fact]
    public void A_confirmation_of_a_frame_that_left_before_the_joins_frame_was_there_confirms_nothing()
    {
        _joins.Begin(["hall"], frame: 1);
        _joins.Begin(["cave"], frame: 2);

        _joins.Confirm(frame: 2);

        Assert.Equal((true, false), (_joins.MayLack("hall"), _joins.MayLack("cave")));
    }

    [Fact]
    public void A_confirmation_of_any_frame_that_left_after_the_joins_frame_was_there_confirms_it()
    {
        _joins.Begin(["hall"], frame: 1);
        _joins.Settle(["hall"], frame: 1, moment: 2);

        Assert.True(_joins.Confirm(frame: 3));
    }

    [Fact]
    public void A_second_join_needs_a_confirmation_of_its_own()
    {
        _joins.Begin(["hall"], frame: 1);
        _joins.Begin(["hall"], frame: 2);
        _joins.Settle(["hall"], frame: 1, moment: 3);

        _joins.Confirm(frame: 1);

        Assert.True(_joins.MayLack("hall"));
    }

    [Fact]
    public void A_node_with_very_many_unconfirmed_joins_may_lack_any_group_until_a_later_frame_is_confirmed()
    {
        var keys = Enumerable.Range(0, 5_000).Select(static room => $"room {room}").ToList();
        _joins.Begin(keys, frame: 1);
        _joins.Confirm(frame: 1);
        var whileUnderWay = _joins.MayLack("any");
        _joins.Settle(keys, frame: 1, moment: 2);

        Assert.True(whileUnderWay);
        Assert.True(_joins.MayLack("any"));
        Assert.True(_joins.Confirm(frame: 3));
        Assert.False(_joins.MayLack("any"));
    }

    [Theory]
    [InlineData("lobby", "group.lobby")]
    [InlineData("room/42:north", "group.room/42:north")]
    public void A_plain_name_is_part_of_its_key(string name, string key) => Assert.Equal(key, RabbitMqTopology.GroupKey(name));

    [Fact]
    public void Every_other_name_has_a_short_key_of_its_own()
    {
        string[] names = ["", " ", "a b", "#", "*", "\0", "ä", "\n", new string('x', 101), new string('x', 102), new string('€', 20_000)];

        var keys = Array.ConvertAll(names, RabbitMqTopology.GroupKey);

        Assert.Equal(names.Length, keys.Distinct(StringComparer.Ordinal).Count());
        Assert.All(keys[1..], static key => Assert.Matches("^group#[0-9A-F]{64}$", key));
        Assert.All(keys, static key => Assert.InRange(Encoding.UTF8.GetByteCount(key), 1, 255));
    }
}
