using BatchKit.Testing;
using MudServer.Softcode;

namespace MudServer.Tests.Support;

/// <summary>Evaluates softcode as Ana, #12, in room #3.</summary>
internal static class SomeSoftcode
{
    public static SoftcodeObject Ana { get; } = new(12, "Ana", 3);

    public static string Evaluate(string text, SoftcodeLimits? limits = null)
    {
        var budget = new SoftcodeBudget(limits ?? SoftcodeLimits.Standard);
        var evaluation = new Evaluation(Ana, new TwoPlayers(), budget, new Random(1), new ManualTimeProvider());
        return SoftcodeParser.Parse(text, FunctionTable.Standard, budget).Evaluate(evaluation);
    }
}
