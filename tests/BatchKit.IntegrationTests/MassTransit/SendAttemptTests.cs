using BatchKit.MassTransit;
using BatchKit.Testing;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>The limit within which MassTransit has to begin to send a frame.</summary>
public sealed class SendAttemptTests
{
    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public void A_send_that_begins_when_its_limit_is_over_has_not_begun()
    {
        using var attempt = new SendAttempt(_clock, CancellationToken.None);

        _clock.Advance(TimeSpan.FromMilliseconds(500));

        Assert.Throws<OperationCanceledException>(attempt.Begin);
        Assert.False(attempt.HasBegun);
        Assert.True(attempt.Token.IsCancellationRequested);
    }

    [Fact]
    public void A_send_that_has_begun_is_not_ended_by_the_limit()
    {
        using var attempt = new SendAttempt(_clock, CancellationToken.None);

        attempt.Begin();
        attempt.Begin();
        _clock.Advance(TimeSpan.FromMinutes(1));

        Assert.True(attempt.HasBegun);
        Assert.False(attempt.Token.IsCancellationRequested);
    }

    [Fact]
    public void A_send_that_its_caller_cancels_ends()
    {
        using var cancelling = new CancellationTokenSource();
        using var attempt = new SendAttempt(_clock, cancelling.Token);
        attempt.Begin();

        cancelling.Cancel();

        Assert.True(attempt.Token.IsCancellationRequested);
    }
}
