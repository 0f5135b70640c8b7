using System.CommandLine;
using BatchKit.Tool.Json;
using BatchKit.Tool.Output;

namespace BatchKit.Tool.Commands;

/// <summary><c>batchkit queue list</c>: how many messages each queue has in each state.</summary>
internal static class ListCommand
{
    private static readonly Option<string?> Queue = new("--queue", "-q") { Description = "Only this queue; all when left out.", HelpName = "name" };

    public static Command Create()
    {
        var command = new Command("list", "Shows how many messages each queue has in each state, and how old the oldest is.") { Queue };
        command.SetAction((parsed, cancellationToken) => Session.RunAsync(parsed, RunAsync, cancellationToken));
        return command;
    }

    private static async Task<int> RunAsync(Session session, CancellationToken cancellationToken)
    {
        var queues = await session.Admin.ListAsync(cancellationToken);
        if (session.Parsed.GetValue(Queue) is { } name)
        {
            queues = [.. queues.Where(queue => queue.Queue == name)];
            if (queues.Count == 0)
                throw new KeyNotFoundException($"There is no queue '{name}' in the schema '{session.Schema}'. Check both names; a queue is created by its first message, or when its receiver starts.");
        }

        if (session.WritesJson)
            session.Write([.. queues.Select(CountsJson.From)], ToolJson.Default.CountsJsonArray);
        else if (queues.Count == 0)
            session.Say($"There are no queues in the schema '{session.Schema}' yet.");
        else
            session.Out.Write(QueueTable.Create(queues));
        return ExitCodes.Done;
    }
}
