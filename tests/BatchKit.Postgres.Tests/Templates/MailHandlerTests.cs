using System.Buffers;
using MailTasks;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Tests.Templates;

/// <summary>The handler of the template for workers, with a mail server that fails.</summary>
public sealed class MailHandlerTests
{
    private readonly QueueMessage[] _batch = [.. Enumerable.Range(1, 3).Select(static id => Mail(id))];

    [Fact]
    public async Task A_mail_that_takes_too_long_is_sent_again_alone()
    {
        // As an HttpClient, and many a client of mail servers, tells of its own time limit.
        var handler = new MailHandler(new Server(static () => throw new TaskCanceledException("The mail server did not answer.")));

        await handler.HandleAsync(_batch, CancellationToken.None);

        Assert.Equal([MessageOutcome.Done, MessageOutcome.Retry, MessageOutcome.Done], _batch.Select(static message => message.Outcome!.Value));
    }

    [Fact]
    public async Task A_mail_that_the_workers_stop_interrupts_is_left_unmarked()
    {
        using var stopping = new CancellationTokenSource();
        var handler = new MailHandler(new Server(() =>
        {
            stopping.Cancel();
            stopping.Token.ThrowIfCancellationRequested();
        }));

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => handler.HandleAsync(_batch, stopping.Token).AsTask());

        Assert.Equal([MessageOutcome.Done, null, null], _batch.Select(static message => message.Outcome));
    }

    private static QueueMessage Mail(long id)
    {
        var codec = new JsonMessageCodec(TaskJson.Default);
        var payload = new ArrayBufferWriter<byte>();
        codec.Encode(new SendMail("ana@example.com", $"{id}"), payload);
        var message = new QueueMessage(SendMail.Queue, id, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, payload.WrittenMemory);
        message.UseCodec(codec);
        return message;
    }

    /// <summary>Stands for the mail server, of which the template logs only: it fails at the second mail.</summary>
    private sealed class Server(Action fail) : ILogger<MailHandler>
    {
        private int _mails;

        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter)
        {
            if (++_mails == 2)
                fail();
        }
    }
}
