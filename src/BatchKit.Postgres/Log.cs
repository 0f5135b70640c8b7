using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres;

/// <summary>What this package logs; ids from 2600.</summary>
internal static partial class Log
{
    [LoggerMessage(2610, LogLevel.Warning, "Listening for notifications of queue {Queue} ended: {Reason} It will be tried again; until then the receiver polls.")]
    public static partial void ListeningEnded(ILogger logger, string queue, string reason);

    [LoggerMessage(2611, LogLevel.Information, "Listening for notifications of queue {Queue} again, after {Failures} attempts.")]
    public static partial void ListeningAgain(ILogger logger, string queue, int failures);

    [LoggerMessage(2645, LogLevel.Error, "{Messages} messages of queue {Queue} failed {MaxAttempts} times or more and hold up their keys; they are tried again every {Pause}.")]
    public static partial void KeysBlocked(ILogger logger, string queue, int messages, int maxAttempts, TimeSpan pause);
}
