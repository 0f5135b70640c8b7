using System.CommandLine;
using BatchKit.Tool.Json;

namespace BatchKit.Tool.Commands;

/// <summary><c>batchkit queue replay</c>: brings dead messages back into their queue.</summary>
internal static class ReplayCommand
{
    private static readonly Option<long[]> Id = new("--id") { Description = "A dead message's number; may be given several times.", HelpName = "number" };
    private static readonly Option<bool> All = new("--all") { Description = "All dead messages of the queue." };

    public static Command Create()
    {
        var command = new Command("replay", "Brings dead messages back into their queue, as new.") { SharedOptions.Queue, Id, All, SharedOptions.Yes };
        command.Validators.Add(result =>
        {
            if (result.GetResult(Id) is null == !result.GetValue(All))
                result.AddError("Say which messages: --id, or --all.");
        });
        command.SetAction((parsed, cancellationToken) => Session.RunAsync(parsed, RunAsync, cancellationToken));
        return command;
    }

    private static async Task<int> RunAsync(Session session, CancellationToken cancellationToken)
    {
        var queue = session.Parsed.GetRequiredValue(SharedOptions.Queue);
        var ids = session.Parsed.GetValue(All) ? null : session.Parsed.GetValue(Id);
        if (ids is null && !await session.ConfirmAsync(queue, counts => $"Replay what is dead in queue '{queue}' ({Counted.Messages(counts.Dead)})?", cancellationToken))
            return ExitCodes.Failed;
        var replayed = await session.Admin.ReplayAsync(queue, ids, cancellationToken);
        if (session.WritesJson)
            session.Write(new ReplayedJson(queue, replayed), ToolJson.Default.ReplayedJson);
        else
            session.Say($"Replayed {Counted.Messages(replayed)} of queue '{queue}'.");
        var asked = ids?.Distinct().Count();
        if (replayed < asked)
            Session.Complain($"{asked - replayed} of the {asked} were left: not dead in this queue, or their uniqueness key is in use again.");
        return replayed < asked ? ExitCodes.Failed : ExitCodes.Done;
    }
}
