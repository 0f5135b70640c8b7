using System.CommandLine;
using BatchKit.Tool.Json;

namespace BatchKit.Tool.Commands;

/// <summary><c>batchkit queue cancel</c>: takes the waiting message with a uniqueness key out of its queue.</summary>
internal static class CancelCommand
{
    private static readonly Option<string> Key = new("--key", "-k") { Description = "The uniqueness key that the message was enqueued with.", HelpName = "key", Required = true };

    public static Command Create()
    {
        var command = new Command("cancel", "Deletes the waiting message with a uniqueness key; one that is being handled, or is dead, stays.") { SharedOptions.Queue, Key };
        command.SetAction((parsed, cancellationToken) => Session.RunAsync(parsed, RunAsync, cancellationToken));
        return command;
    }

    private static async Task<int> RunAsync(Session session, CancellationToken cancellationToken)
    {
        var queue = session.Parsed.GetRequiredValue(SharedOptions.Queue);
        var isCancelled = await session.Admin.CancelAsync(queue, session.Parsed.GetRequiredValue(Key), cancellationToken);
        if (session.WritesJson)
            session.Write(new DeletedJson(queue, isCancelled ? 1 : 0), ToolJson.Default.DeletedJson);
        else if (isCancelled)
            session.Say($"Deleted {Counted.Messages(1)} of queue '{queue}'.");
        if (!isCancelled)
            Session.Complain("No message with this uniqueness key waits in the queue.");
        return isCancelled ? ExitCodes.Done : ExitCodes.Failed;
    }
}
