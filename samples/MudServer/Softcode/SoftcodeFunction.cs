using System.Text;

namespace MudServer.Softcode;

/// <summary>A function of softcode: what it is called, how it is used, how many arguments it takes, and what it does.</summary>
internal sealed record SoftcodeFunction(
    string Usage, int MinArguments, int MaxArguments, Action<FunctionArguments, StringBuilder> Body)
{
    public string Name { get; } = Usage[..Usage.IndexOf('(', StringComparison.Ordinal)];

    /// <summary>What a call with the wrong number of arguments gives instead.</summary>
    public string ArityError(int count) => MinArguments == MaxArguments
        ? $"#-1 FUNCTION ({Name.ToUpperInvariant()}) EXPECTS {MinArguments} ARGUMENTS BUT GOT {count}"
        : $"#-1 FUNCTION ({Name.ToUpperInvariant()}) EXPECTS {MinArguments} TO {MaxArguments} ARGUMENTS BUT GOT {count}";
}
