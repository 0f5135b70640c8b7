using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class DuplicateFilterTests
{
    private readonly SeenNumbers _seen = new(Some.Producer());

    [Fact]
    public void All_numbers_up_to_the_settled_one_are_seen()
    {
        _seen.AddThrough(5);
        _seen.AddThrough(3);

        Assert.True(_seen.Contains(1));
        Assert.True(_seen.Contains(5));
        Assert.False(_seen.Contains(6));
    }

    [Fact]
    public void A_number_that_is_settled_before_those_below_it_is_seen_alone()
    {
        _seen.AddThrough(1);
        _seen.AddBeyond(3);

        Assert.True(_seen.Contains(3));
        Assert.False(_seen.Contains(2));
        Assert.False(_seen.Contains(4));
    }

    [Fact]
    public void Single_numbers_are_kept_only_until_all_below_them_are_settled()
    {
        foreach (var number in (long[])[3, 5, 7])
            _seen.AddBeyond(number);

        _seen.AddThrough(5);
        var left = _seen.SingleNumbers;
        _seen.AddThrough(7);

        Assert.Equal((1, 0), (left, _seen.SingleNumbers));
        Assert.True(_seen.Contains(7));
        Assert.False(_seen.Contains(8));
    }
}
