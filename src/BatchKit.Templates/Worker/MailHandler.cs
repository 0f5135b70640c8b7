using BatchKit;
using BatchKit.Postgres;

namespace MailTasks;

/// <summary>Handles a batch of tasks. Each batch has a handler and a scope of services of its own, so a handler may take a DbContext.</summary>
internal sealed class MailHandler(ILogger<MailHandler> logger) : IMessageHandler<QueueMessage>
{
    // Each task is marked by itself, so that one that fails repeats no other. After a crash a task may be handled again, so it must be safe to repeat.
    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            if (!message.TryRead<SendMail>(out var mail))
            {
                message.Refuse($"It is not a {nameof(SendMail)}.");
                continue;
            }

            try
            {
                await SendAsync(mail, cancellationToken);
                message.Complete();
            }
            catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
            {
                message.Retry(exception.Message);
            }
        }
    }

    // Call your mail server here.
    private Task SendAsync(SendMail mail, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        logger.LogInformation("\"{Subject}\" is sent to {Address}.", mail.Subject, mail.Address);
        return Task.CompletedTask;
    }
}
