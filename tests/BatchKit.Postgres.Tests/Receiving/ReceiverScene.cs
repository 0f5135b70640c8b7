using System.Diagnostics;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A receiver on a queue without order.</summary>
internal sealed class ReceiverScene : IAsyncDisposable
{
    private ReceiverScene(ClaimScene claims, IMessageHandler<QueueMessage> handler, NpgsqlDataSource? dataSource, TimeProvider? timeProvider)
    {
        Claims = claims;
        Receiver = new PostgresQueueReceiver(dataSource ?? claims.Schema.DataSource, claims.Options, handler, timeProvider, new Logger<PostgresQueueReceiver>(Log));
    }

    public ClaimScene Claims { get; }

    public PostgresQueueReceiver Receiver { get; }

    public LogCollector Log { get; } = new();

    public PostgresQueueReceiverStatistics Statistics => Receiver.GetStatistics();

    public static async Task<ReceiverScene> OpenAsync(
        PostgresFixture fixture, IMessageHandler<QueueMessage> handler, Action<PostgresQueueReceiverOptions>? configure = null, NpgsqlDataSource? dataSource = null,
        TimeProvider? timeProvider = null)
    {
        var claims = await ClaimScene.OpenAsync(fixture, options =>
        {
            // What a test waits for comes soon.
            (options.Concurrency, options.PollInterval, options.RetryDelay) = (2, TimeSpan.FromMilliseconds(100), TimeSpan.FromMilliseconds(10));
            configure?.Invoke(options);
        });
        return new ReceiverScene(claims, handler, dataSource, timeProvider);
    }

    public Task StartAsync() => Receiver.StartAsync(CancellationToken.None).WithinDeadline();

    public Task StopAsync() => Receiver.StopAsync(CancellationToken.None).WithinDeadline();

    /// <summary>Waits until it holds, and fails at the deadline.</summary>
    public async Task UntilAsync(Func<PostgresQueueReceiverStatistics, bool> holds)
    {
        var began = Stopwatch.GetTimestamp();
        while (!holds(Statistics))
        {
            Assert.True(Stopwatch.GetElapsedTime(began) < Deadline.Time, $"completed {Statistics.CompletedMessages}, retried {Statistics.RetriedMessages}, lost {Statistics.LostMessages}\n{Log.Text}");
            await Task.Delay(TimeSpan.FromMilliseconds(5));
        }
    }

    public async ValueTask DisposeAsync()
    {
        await Receiver.DisposeAsync();
        await Claims.DisposeAsync();
    }
}
