using System.Text;

namespace MudServer.Softcode;

/// <summary>A function of softcode: its name, its usage, the number of its arguments, and what it does.</summary>
internal sealed record SoftcodeFunction(
    string Usage, int MinArguments, int MaxArguments, Action<FunctionArguments, StringBuilder> Body)
{
    public string Name { get; } = Usage[..Usage.IndexOf('(', StringComparison.Ordinal)];

    /// <summary>The result of a call with the wrong number of arguments.</summary>
    public string ArityError(int count) => MinArguments == MaxArguments
        ? $"#-1 FUNCTION ({Name.ToUpperInvariant()}) EXPECTS {MinArguments} ARGUMENTS BUT GOT {count}"
        : $"#-1 FUNCTION ({Name.ToUpperInvariant()}) EXPECTS {MinArguments} TO {MaxArguments} ARGUMENTS BUT GOT {count}";
}
