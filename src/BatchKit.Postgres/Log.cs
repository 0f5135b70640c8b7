using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres;

/// <summary>What this package logs; ids from 2600.</summary>
internal static partial class Log
{
    [LoggerMessage(2645, LogLevel.Error, "{Messages} messages of queue {Queue} failed {MaxAttempts} times or more and hold up their keys; they are tried again every {Pause}.")]
    public static partial void KeysBlocked(ILogger logger, string queue, int messages, int maxAttempts, TimeSpan pause);
}
