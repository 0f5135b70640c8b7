using System.CommandLine;

namespace BatchKit.Tool.Commands;

/// <summary>The options that several commands have, one object each, so that they mean the same everywhere.</summary>
internal static class SharedOptions
{
    public const string ConnectionVariable = "BATCHKIT_CONNECTION";

    public static Option<string?> Connection { get; } = new("--connection", "-c")
    {
        Description = $"The database, as Host=…;Username=…;Password=…;Database=…; {ConnectionVariable} of the environment when left out, which keeps the password off the command line.",
        HelpName = "string",
        Recursive = true,
    };

    public static Option<string> Schema { get; } = new("--schema", "-s")
    {
        Description = "The schema that the queues are in.",
        HelpName = "name",
        DefaultValueFactory = _ => "batchkit",
        Recursive = true,
    };

    public static Option<bool> Json { get; } = new("--json")
    {
        Description = "Writes JSON for programs instead of a table for people.",
        Recursive = true,
    };

    public static Option<string> Queue { get; } = new("--queue", "-q") { Description = "The queue.", HelpName = "name", Required = true };

    public static Option<bool> Yes { get; } = new("--yes", "-y") { Description = "Does not ask first. Needed where there is no terminal to ask on." };
}
