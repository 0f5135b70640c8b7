using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class RetryShareTests
{
    private readonly RetryShare _share = new();

    [Fact]
    public void A_worker_looks_for_retries_first() => Assert.True(_share.IsRetriesTurn);

    [Theory]
    [InlineData(100, 10, 10)]
    [InlineData(100, 60, 2)]
    [InlineData(100, 100, 1)]
    [InlineData(1, 5000, 1)]
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

    [Fact]
    public void Where_there_are_no_retries_it_stays_their_turn()
    {
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);
        _share.Took(TimeSpan.FromMilliseconds(10), isRetry: false);

        Assert.True(_share.IsRetriesTurn);
    }
}
