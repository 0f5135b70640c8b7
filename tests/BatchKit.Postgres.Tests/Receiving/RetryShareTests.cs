using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class RetryShareTests
{
    private readonly RetryShare _share = new();

    [Fact]
    public void A_worker_looks_for_retries_first() => Assert.True(_share.IsRetriesTurn);

    [Theory]
    [InlineData(100, 10, 10)]
    [InlineData(100, 100, 1)]
    [InlineData(0, 0, 1)]
    public void Retries_have_as_much_time_as_a_fresh_batch_and_a_turn_at_least(int freshMilliseconds, int retryMilliseconds, int retries)
    {
        for (var round = 0; round < 3; round++)
        {
            _share.Took(TimeSpan.FromMilliseconds(freshMilliseconds), isRetry: false);

            for (var retry = 0; retry < retries; retry++)
            {
                Assert.True(_share.IsRetriesTurn);
                _share.Took(TimeSpan.FromMilliseconds(retryMilliseconds), isRetry: true);
            }

            Assert.False(_share.IsRetriesTurn);
        }
    }

    [Theory]
    [InlineData(10, 1000)]
    [InlineData(100, 60)]
    [InlineData(1, 5000)]
    public void A_retry_that_takes_longer_than_its_time_is_paid_for_before_the_next(int freshMilliseconds, int retryMilliseconds)
    {
        var (fresh, retries) = (0, 0);
        while (fresh < 1000)
        {
            var isRetry = _share.IsRetriesTurn;
            _share.Took(TimeSpan.FromMilliseconds(isRetry ? retryMilliseconds : freshMilliseconds), isRetry);
            (fresh, retries) = isRetry ? (fresh, retries + 1) : (fresh + 1, retries);
        }

        Assert.InRange(retries * retryMilliseconds, (1000 * freshMilliseconds) - retryMilliseconds, (1000 * freshMilliseconds) + retryMilliseconds);
    }

    [Fact]
    public void Retries_that_were_claimed_because_nothing_else_waited_are_not_paid_for()
    {
        for (var retry = 0; retry < 100; retry++)
            _share.Took(TimeSpan.FromMilliseconds(10), isRetry: true);
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);

        Assert.True(_share.IsRetriesTurn);
    }

    [Fact]
    public void Where_there_are_no_retries_it_stays_their_turn()
    {
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);

        Assert.True(_share.IsRetriesTurn);
    }
}
