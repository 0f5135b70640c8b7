using BatchKit;

namespace MailTasks;

/// <summary>Stores a hundred tasks every ten seconds. In your application a web request or a game loop may do this, in this process or in another.</summary>
internal sealed class MailProducer(TypedOutput output, ILogger<MailProducer> logger) : BackgroundService
{
    private const int Tasks = 100;

    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(10);

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        using var timer = new PeriodicTimer(Interval);
        do
        {
            try
            {
                await EnqueueAsync(stoppingToken);
            }
            catch (OutputDeliveryException exception)
            {
                logger.LogError(exception, "Some tasks were not stored.");
            }
        }
        while (await timer.WaitForNextTickAsync(stoppingToken));
    }

    // A scope is stored in one transaction with one notification. Disposing it with await waits for the commit.
    private async Task EnqueueAsync(CancellationToken cancellationToken)
    {
        await using (output.Buffer.BeginBufferingScope(SendMail.Queue))
        {
            for (var number = 1; number <= Tasks; number++)
                await output.WriteAsync(SendMail.Queue, new SendMail($"player{number}@example.org", "Your daily summary"), cancellationToken: cancellationToken);
        }

        logger.LogInformation("{Tasks} tasks are stored.", Tasks);
    }
}
