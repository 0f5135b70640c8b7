using System.CommandLine;

namespace BatchKit.Tool.Commands;

/// <summary>The commands <c>batchkit queue …</c>.</summary>
internal static class QueueCommands
{
    public static Command Create() => new("queue", "Counts, dead messages, replay, purge and cancel.")
    {
        SharedOptions.Connection,
        SharedOptions.Schema,
        SharedOptions.Json,
        ListCommand.Create(),
        DeadCommand.Create(),
        ReplayCommand.Create(),
        PurgeCommand.Create(),
        CancelCommand.Create(),
    };
}

/// <summary>Numbers with their noun.</summary>
internal static class Counted
{
    public static string Messages(long count) => count == 1 ? "1 message" : $"{count:N0} messages";
}
