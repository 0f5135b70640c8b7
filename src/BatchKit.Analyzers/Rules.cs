using Microsoft.CodeAnalysis;

namespace BatchKit.Analyzers;

/// <summary>The rules. Each has a section in docs/analyzers.md. Advice is information, so that it breaks no one's build; misuse is a warning.</summary>
internal static class Rules
{
    public static readonly DiagnosticDescriptor SendLoop = Advice(
        "BK0001", "A loop sends its messages one at a time", "Each iteration sends one message with '{0}'. {1}.");

    public static readonly DiagnosticDescriptor WriteLoop = Advice(
        "BK0002", "A loop writes to one handle outside a scope",
        "The loop writes to one handle outside a buffering scope. Inside one, all its messages leave together.");

    public static readonly DiagnosticDescriptor OpenScope = Misuse(
        "BK0003", "A scope is not disposed", "Nothing disposes this scope, so it holds output back until MaxScopeAge ends it. {0}.");

    public static readonly DiagnosticDescriptor ScopeInField = Misuse(
        "BK0004", "A scope without a limit is kept in a field",
        "'{0}' keeps a scope without a limit, so output waits for whoever disposes it. Open it with 'using', or give it a maxHold.");

    public static readonly DiagnosticDescriptor LostAmbientScope = Misuse(
        "BK0005", "An async method returns an ambient scope",
        "The scope ends at the return of the async method that opened it: its caller's writes are not covered. Open it in the method that owns the loop, or return it from a method that is not async.");

    public static readonly DiagnosticDescriptor NotAwaited = Misuse(
        "BK0006", "A write, a flush or a scope's end is not awaited", "'{0}' is not awaited, so no one learns of a message that was lost. {1}.");

    public static readonly DiagnosticDescriptor BufferInEncoder = Misuse(
        "BK0007", "An encoder uses a buffer or a scope", "An encoder may only write to its memory: '{0}' throws InvalidOperationException");

    private static DiagnosticDescriptor Advice(string id, string title, string message) => Create(id, title, message, "Performance", DiagnosticSeverity.Info);

    private static DiagnosticDescriptor Misuse(string id, string title, string message) => Create(id, title, message, "Reliability", DiagnosticSeverity.Warning);

    private static DiagnosticDescriptor Create(string id, string title, string message, string category, DiagnosticSeverity severity) => new(
        id, title, message, category, severity, isEnabledByDefault: true,
        helpLinkUri: $"https://github.com/batchkit/batchkit/blob/main/docs/analyzers.md#{id.ToLowerInvariant()}");
}
