using System.CommandLine;
using System.CommandLine.Help;
using BatchKit.Tool;
using BatchKit.Tool.Commands;

// A RootCommand would call itself by the assembly's name, and users know the tool's.
var root = new Command("batchkit", "Looks at BatchKit's queues in PostgreSQL, and puts them right.") { new HelpOption(), new VersionOption(), QueueCommands.Create() };
var parsed = root.Parse(args);
var code = await parsed.InvokeAsync();
return parsed.Errors.Count > 0 ? ExitCodes.Usage : code;
