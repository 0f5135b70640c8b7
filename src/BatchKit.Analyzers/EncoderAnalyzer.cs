using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>BK0007: a buffer or a scope that is used inside a message's encoder.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
internal sealed class EncoderAnalyzer() : BufferAnalyzer(OperationKind.DelegateCreation, Rules.BufferInEncoder)
{
    protected override void Analyze(OperationAnalysisContext context, BufferTypes buffers)
    {
        var encoder = (IDelegateCreationOperation)context.Operation;
        if (!buffers.IsEncoder(encoder.Type) || BodyOf(encoder, context) is not { } body || !IsFirst(encoder, buffers, context))
            return;
        foreach (var call in body.DescendantsAndSelf().OfType<IInvocationOperation>())
        {
            if ((buffers.IsBufferCall(call) || buffers.IsScope(call.TargetMethod.ContainingType)) && !IsHarmless(call.TargetMethod.Name) && !IsInAnother(call, body, buffers))
                context.ReportDiagnostic(Diagnostic.Create(Rules.BufferInEncoder, call.NameLocation(), call.TargetMethod.Name));
        }
    }

    // What takes no handle's lock, and ends no scope, does not throw.
    private static bool IsHarmless(string method) => method is "GetHealth" or "IsDeliveredLocally" or "Create" or "AsBufferWriter" or "Equals" or "GetHashCode";

    // What an encoder inside this one calls is reported for that one.
    private static bool IsInAnother(IOperation call, IOperation body, BufferTypes buffers)
    {
        for (var outer = call.Parent; outer is not null && outer != body; outer = outer.Parent)
        {
            if ((outer is IDelegateCreationOperation inner && buffers.IsEncoder(inner.Type)) || (outer is ILocalFunctionOperation local && Encodes(local, buffers)))
                return true;
        }

        return false;
    }

    private static bool Encodes(ILocalFunctionOperation local, BufferTypes buffers) => local.Root().Descendants().OfType<IDelegateCreationOperation>()
        .Any(other => buffers.IsEncoder(other.Type) && other.Target is IMethodReferenceOperation { Method: var method } && SymbolEqualityComparer.Default.Equals(method, local.Symbol));

    // Several writes may have one method as their encoder: it is reported for the first in the file.
    private static bool IsFirst(IDelegateCreationOperation encoder, BufferTypes buffers, OperationAnalysisContext context)
    {
        if (encoder is not { Target: IMethodReferenceOperation { Method: var method }, SemanticModel: { } model })
            return true;
        return !encoder.Syntax.SyntaxTree.GetRoot(context.CancellationToken).DescendantNodes().OfType<IdentifierNameSyntax>()
            .TakeWhile(name => name.Span.End < encoder.Syntax.Span.End)
            .Where(name => name.Identifier.ValueText == method.Name && SymbolEqualityComparer.Default.Equals(model.GetSymbolInfo(name, context.CancellationToken).Symbol, method))
            .Any(name => model.GetOperation(name.Parent is MemberAccessExpressionSyntax member ? member : name, context.CancellationToken)?.Parent is IDelegateCreationOperation other && buffers.IsEncoder(other.Type));
    }

    // A method of another file is not looked at: its meaning is not at hand here.
    private static IOperation? BodyOf(IDelegateCreationOperation encoder, OperationAnalysisContext context)
    {
        if (encoder.Target is not IMethodReferenceOperation { Method: var method })
            return encoder.Target;
        var declared = method.DeclaringSyntaxReferences.FirstOrDefault();
        return declared?.SyntaxTree == encoder.Syntax.SyntaxTree ? encoder.SemanticModel?.GetOperation(declared.GetSyntax(context.CancellationToken), context.CancellationToken) : null;
    }
}
