using System.Collections.Frozen;

namespace MudServer.Softcode;

/// <summary>All functions, by name in any case.</summary>
internal sealed class FunctionTable
{
    private readonly FrozenDictionary<string, SoftcodeFunction> _functions;

    private FunctionTable(IEnumerable<SoftcodeFunction> functions) =>
        _functions = functions.ToFrozenDictionary(function => function.Name, StringComparer.OrdinalIgnoreCase);

    public static FunctionTable Standard { get; } = new(
        [.. ListFunctions.All, .. NumberFunctions.All, .. LogicFunctions.All, .. TextFunctions.All, .. WorldFunctions.All]);

    public IEnumerable<SoftcodeFunction> Functions => _functions.Values;

    public bool TryGet(string name, out SoftcodeFunction function)
    {
        var found = _functions.TryGetValue(name, out var value);
        function = value!;
        return found;
    }
}
