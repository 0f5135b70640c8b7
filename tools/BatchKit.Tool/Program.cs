using System.CommandLine;
using System.CommandLine.Help;
using BatchKit.Diagnostics;
using BatchKit.Tool;
using BatchKit.Tool.Commands;

// A RootCommand would call itself by the assembly's name, and users know the tool's.
var root = new Command("batchkit", "Looks at BatchKit's queues in PostgreSQL, and puts them right.") { new HelpOption(), new VersionOption(), QueueCommands.Create() };
var parsed = root.Parse(args);
try
{
    var code = await parsed.InvokeAsync(new InvocationConfiguration { EnableDefaultExceptionHandler = false });
    return parsed.Errors.Count > 0 ? ExitCodes.Usage : code;
}
catch (Exception exception) when (exception is IOException or UnauthorizedAccessException)
{
    // What was to be shown can't be written, as to a full disk.
    Session.Complain(FailureText.MessageOf(exception));
    return ExitCodes.Failed;
}
