namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>Receivers whose start and whose stop, and with it their claims and completions, are cancelled at a random moment.</summary>
[Trait("Lane", "slow: calls are cancelled at random moments")]
public sealed class CancelledReceiverTests(PostgresFixture fixture, ITestOutputHelper log)
{
    [Fact]
    public async Task Every_message_is_completed_and_no_cancellation_counts_as_an_attempt()
    {
        var handler = new ScriptedHandler();
        await using var claims = await ClaimScene.OpenAsync(fixture, static options =>
            (options.Concurrency, options.BatchSize, options.StopTimeout, options.PollInterval, options.MaxAttempts) = (2, 3, TimeSpan.Zero, TimeSpan.FromMilliseconds(100), 1));
        var (random, cancelled, rounds) = (new Random(20), 0, Cancellations.Count(usual: 30));
        string[] texts = [.. Enumerable.Range(0, 10 * rounds).Select(static number => $"{number}")];

        for (var round = 0; round < rounds; round++)
        {
            await claims.InsertAsync(texts[(10 * round)..(10 * (round + 1))]);
            await using var receiver = new PostgresQueueReceiver(claims.Schema.DataSource, claims.Options, handler);
            cancelled += await Cancellations.RunAsync(receiver.StartAsync, random, TimeSpan.FromMilliseconds(128)) ? 1 : 0;
            cancelled += await Cancellations.RunAsync(receiver.StopAsync, random, TimeSpan.FromMilliseconds(16)) ? 1 : 0;
        }

        await claims.EndClaimsAsync();
        await using var last = new PostgresQueueReceiver(claims.Schema.DataSource, claims.Options, handler);
        await last.StartAsync(CancellationToken.None).WithinDeadline();
        // A stop gives back what was claimed and not begun.
        await Until.TrueAsync(async () => await claims.CountAsync("messages") + await claims.CountAsync("claims") == 0);
        await last.StopAsync(CancellationToken.None).WithinDeadline();

        var handled = handler.Handled.Select(static text => text.Split(':')[0]).ToArray();
        log.WriteLine($"{rounds} receivers, {cancelled} starts and stops cancelled, {handled.Length - texts.Length} messages handled again");
        Assert.Equal(texts.ToHashSet(), handled.ToHashSet());
        Assert.Equal("", await claims.DeadAsync());
        Assert.True(cancelled > 0, "Every start and stop ended before it was cancelled.");
    }
}
