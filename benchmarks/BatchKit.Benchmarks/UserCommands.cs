using System.CommandLine;
using System.CommandLine.Help;
using BatchKit.Benchmarks.Publish;

namespace BatchKit.Benchmarks;

/// <summary>The commands of <c>batchkit-bench</c>, and how each ends.</summary>
internal static class UserCommands
{
    public static async Task<int> RunAsync(string[] arguments)
    {
        // A RootCommand would call itself by the assembly's name, and users know the tool's.
        var root = new Command("batchkit-bench", "Measures BatchKit on your machine and your brokers, and checks the limits of your own benchmarks.")
        {
            new HelpOption(), new VersionOption(), GateCommand.Create(), RunCommand.Create(), InitCommand.Create(), CompareCommand.Create(), CreateDry(), CreateFigures(), CreateInject(),
        };
        RefuseEmpty(root);
        var parsed = root.Parse(arguments);
        var signals = Interruption.Watch();
        try
        {
            var code = await parsed.InvokeAsync(new InvocationConfiguration { EnableDefaultExceptionHandler = false, ProcessTerminationTimeout = null }, Interruption.Token);
            return parsed.Errors.Count > 0 ? ExitCodes.Usage : code;
        }
        // Whatever failed then: programs that it had started are gone.
        catch (Exception) when (Interruption.ExitCode > 0)
        {
            Console.Error.WriteLine("Interrupted.");
            return Interruption.ExitCode;
        }
        catch (Exception exception) when (exception is UsageException or InvalidDataException)
        {
            Console.Error.WriteLine(exception.Message);
            return ExitCodes.Usage;
        }
        finally
        {
            Array.ForEach(signals, static signal => signal.Dispose());
        }
    }

    // An empty path or pattern, as of a script's unset variable, would only fail where it is used, and name no option.
    private static void RefuseEmpty(Command root)
    {
        foreach (var option in OptionsOf(root).Distinct())
        {
            option.Validators.Add(static result =>
            {
                if (result.Tokens.Any(static token => token.Value.Length == 0))
                    result.AddError($"{result.Option.Name} must not be empty.");
            });
        }
    }

    private static IEnumerable<Option> OptionsOf(Command command) => command.Options.Concat(command.Subcommands.SelectMany(OptionsOf));

    private static Command CreateDry()
    {
        var suites = new Argument<string[]>("suite") { Description = "Only these; all when left out.", Arity = ArgumentArity.ZeroOrMore };
        var command = new Command("dry", "Runs every benchmark of BatchKit once, to see that it works.") { suites };
        command.SetAction(parsed => DryCommand.Run(parsed.GetValue(suites)!));
        return command;
    }

    // For this repository only.
    private static Command CreateFigures()
    {
        var check = new Option<bool>("--check") { Description = "Only ends with 1 where they differ." };
        var command = new Command("figures", "Writes the figures of benchmarks/results into the pages that show them.") { check };
        command.Hidden = true;
        command.SetAction(parsed => FiguresCommand.Run(parsed.GetValue(check)));
        return command;
    }

    private static Command CreateInject()
    {
        var command = new Command("inject", "Measures MQTTnet's server alone.") { Hidden = true };
        command.SetAction(_ => InjectCommand.Run());
        return command;
    }
}
