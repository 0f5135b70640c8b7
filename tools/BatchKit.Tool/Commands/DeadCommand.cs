using System.CommandLine;
using System.Globalization;
using BatchKit.Tool.Json;
using BatchKit.Tool.Output;

namespace BatchKit.Tool.Commands;

/// <summary><c>batchkit queue dead</c>: the messages that were given up, and why.</summary>
internal static class DeadCommand
{
    private static readonly Option<int> Limit = new("--limit", "-n")
    {
        Description = "The most messages to show, the latest first.",
        HelpName = "count",
        DefaultValueFactory = _ => 20,
    };

    public static Command Create()
    {
        Limit.Validators.Add(result =>
        {
            // What is no number is an error already, which is not known here yet; to ask for its value would throw.
            if (result.Tokens is [var token] && int.TryParse(token.Value, CultureInfo.CurrentCulture, out var limit) && limit < 1)
                result.AddError("--limit must be 1 or more.");
        });
        var command = new Command("dead", "Shows the messages of a queue that were given up, and why.") { SharedOptions.Queue, Limit };
        command.SetAction((parsed, cancellationToken) => Session.RunAsync(parsed, RunAsync, cancellationToken));
        return command;
    }

    private static async Task<int> RunAsync(Session session, CancellationToken cancellationToken)
    {
        var queue = session.Parsed.GetRequiredValue(SharedOptions.Queue);
        var limit = session.Parsed.GetValue(Limit);
        // One more than is shown tells whether there are more.
        var messages = await session.Admin.ListDeadAsync(queue, limit == int.MaxValue ? limit : limit + 1, cancellationToken);
        var shown = messages.Take(limit).ToArray();
        if (session.WritesJson)
            session.Write([.. shown.Select(DeadJson.From)], ToolJson.Default.DeadJsonArray);
        else if (shown.Length == 0)
            session.Say($"Queue '{queue}' has no dead messages.");
        else
            session.Out.Write(DeadTable.Create(shown, TimeProvider.System.GetUtcNow(), session.Out.Profile.Width));
        if (messages.Count > shown.Length && !session.WritesJson)
            session.Say($"The latest {limit}; there are more (--limit).");
        return ExitCodes.Done;
    }
}
