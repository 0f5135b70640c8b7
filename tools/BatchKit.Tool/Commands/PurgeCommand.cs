using System.CommandLine;
using BatchKit.Tool.Json;

namespace BatchKit.Tool.Commands;

/// <summary><c>batchkit queue purge</c>: deletes what waits in a queue, or dead messages.</summary>
internal static class PurgeCommand
{
    private static readonly Option<bool> Dead = new("--dead") { Description = "Deletes dead messages instead: all, or those named with --id." };
    private static readonly Option<long[]> Id = new("--id") { Description = "A dead message's number, with --dead; may be given several times.", HelpName = "number" };

    public static Command Create()
    {
        var command = new Command("purge", "Deletes everything that waits in a queue; what is being handled and what is dead stays.") { SharedOptions.Queue, Dead, Id, SharedOptions.Yes };
        command.Validators.Add(result =>
        {
            if (result.GetResult(Id) is not null && !result.GetValue(Dead))
                result.AddError("--id names dead messages: give --dead with it.");
        });
        command.SetAction((parsed, cancellationToken) => Session.RunAsync(parsed, RunAsync, cancellationToken));
        return command;
    }

    private static async Task<int> RunAsync(Session session, CancellationToken cancellationToken)
    {
        var queue = session.Parsed.GetRequiredValue(SharedOptions.Queue);
        var isDead = session.Parsed.GetValue(Dead);
        var ids = session.Parsed.GetResult(Id) is null ? null : session.Parsed.GetValue(Id);
        if (ids is null && !await session.ConfirmAsync(queue, counts => Question(counts, isDead), cancellationToken))
            return ExitCodes.Failed;
        var deleted = isDead
            ? await session.Admin.DeleteDeadAsync(queue, ids, cancellationToken)
            : await session.Admin.PurgeAsync(queue, cancellationToken);
        if (session.WritesJson)
            session.Write(new DeletedJson(queue, deleted), ToolJson.Default.DeletedJson);
        else
            session.Say($"Deleted {Counted.Messages(deleted)} of queue '{queue}'.");
        var asked = ids?.Distinct().Count();
        if (deleted < asked)
            Session.Complain($"{asked - deleted} of the {asked} are not dead in this queue.");
        return deleted < asked ? ExitCodes.Failed : ExitCodes.Done;
    }

    private static string Question(Postgres.QueueCounts counts, bool isDead) => isDead
        ? $"Delete what is dead in queue '{counts.Queue}' ({Counted.Messages(counts.Dead)})?"
        : $"Delete what waits in queue '{counts.Queue}' ({Counted.Messages(counts.Ready + counts.Delayed)})?";
}
