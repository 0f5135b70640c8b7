namespace MudServer.Hosting;

/// <summary>The log messages of the host.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 21, Level = LogLevel.Warning, Message = "The game stopped before its goodbye was delivered to all players: {Reason}")]
    public static partial void LastWordsLost(ILogger logger, string reason);

    [LoggerMessage(EventId = 24, Level = LogLevel.Information, Message = "The gateway sent {Gone} of {Clients} clients to another one; {Lines} lines came too late and were dropped")]
    public static partial void Drained(ILogger logger, int gone, int clients, long lines);

    [LoggerMessage(EventId = 22, Level = LogLevel.Information, Message = "Shard {Shard} of {Count} is now {Place}")]
    public static partial void ShardChanged(ILogger logger, int shard, int count, string place);

    [LoggerMessage(EventId = 23, Level = LogLevel.Information, Message = "Shard {Shard} of {Count} was given back to its own game")]
    public static partial void ShardGivenBack(ILogger logger, int shard, int count);
}
