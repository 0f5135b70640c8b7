using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;

namespace BatchKit.Analyzers;

/// <summary>Analyzes operations of one kind, in code that knows buffers.</summary>
internal abstract class BufferAnalyzer(OperationKind kind, params DiagnosticDescriptor[] rules) : DiagnosticAnalyzer
{
    public sealed override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [.. rules];

    public sealed override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(start =>
        {
            if (BufferTypes.TryGet(start.Compilation) is { } buffers)
                start.RegisterOperationAction(operation => Analyze(operation, buffers), kind);
        });
    }

    protected abstract void Analyze(OperationAnalysisContext context, BufferTypes buffers);
}
