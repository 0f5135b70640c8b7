using System.CommandLine;

namespace BatchKit.Tool.Commands;

/// <summary>The commands <c>batchkit queue …</c>.</summary>
internal static class QueueCommands
{
    public static Command Create() => new("queue", "Counts, dead messages, replay and purge.")
    {
        SharedOptions.Connection,
        SharedOptions.Schema,
        SharedOptions.Json,
        ListCommand.Create(),
        DeadCommand.Create(),
        ReplayCommand.Create(),
        PurgeCommand.Create(),
    };
}

/// <summary>Numbers with their noun.</summary>
internal static class Counted
{
    public static string Messages(long count) => count == 1 ? "1 message" : $"{count:N0} messages";
}
