using System.Diagnostics.CodeAnalysis;

namespace MudServer.Game.Commands;

/// <summary>All commands, by name and by alias in any case.</summary>
internal sealed class CommandTable
{
    private readonly Dictionary<string, Command> _commands = new(StringComparer.OrdinalIgnoreCase);

    public CommandTable(IReadOnlyList<Command> commands)
    {
        Commands = commands;
        foreach (var command in commands)
        {
            _commands.Add(command.Name, command);
            foreach (var alias in command.Aliases)
                _commands.Add(alias, command);
        }
    }

    public IReadOnlyList<Command> Commands { get; }

    public bool TryGet(string word, [NotNullWhen(true)] out Command? command) => _commands.TryGetValue(word, out command);
}
