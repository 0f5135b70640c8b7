using System.Linq;
using Microsoft.CodeAnalysis;
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
        if (!buffers.IsEncoder(encoder.Type) || BodyOf(encoder, context) is not { } body)
            return;
        foreach (var call in body.DescendantsAndSelf().OfType<IInvocationOperation>())
        {
            if ((buffers.IsBufferCall(call) || buffers.IsScope(call.TargetMethod.ContainingType)) && !IsHarmless(call.TargetMethod.Name))
                context.ReportDiagnostic(Diagnostic.Create(Rules.BufferInEncoder, call.NameLocation(), call.TargetMethod.Name));
        }
    }

    // What takes no handle's lock, and ends no scope, does not throw.
    private static bool IsHarmless(string method) => method is "GetHealth" or "IsDeliveredLocally" or "Create" or "AsBufferWriter" or "Equals" or "GetHashCode";

    // A method of another file is not looked at: its meaning is not at hand here.
    private static IOperation? BodyOf(IDelegateCreationOperation encoder, OperationAnalysisContext context)
    {
        if (encoder.Target is not IMethodReferenceOperation { Method: var method })
            return encoder.Target;
        var declared = method.DeclaringSyntaxReferences.FirstOrDefault();
        return declared?.SyntaxTree == encoder.Syntax.SyntaxTree ? encoder.SemanticModel?.GetOperation(declared.GetSyntax(context.CancellationToken), context.CancellationToken) : null;
    }
}
