using System;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

internal static class Symbols
{
    /// <summary>What a method is called on: the type that declares it, or that an extension method extends.</summary>
    public static ITypeSymbol? ReceiverType(this IMethodSymbol method)
    {
        var declared = method.ReducedFrom ?? method;
        return declared.IsExtensionMethod ? declared.Parameters[0].Type : declared.ContainingType;
    }

    /// <summary>True for "ReadLine" and "Read", which begin with "Read"; false for "Ready".</summary>
    public static bool BeginsWithWord(this string name, string word) =>
        name.StartsWith(word, StringComparison.Ordinal) && (name.Length == word.Length || !char.IsLower(name[word.Length]));

    /// <summary>True for a call that gives a task another form, and does not wait for it.</summary>
    public static bool IsTaskForm(this IInvocationOperation call) => call.TargetMethod.Name is "ConfigureAwait" or "AsTask" or "Preserve";

    /// <summary>The operation of the whole body that an operation is part of.</summary>
    public static IOperation Root(this IOperation operation)
    {
        while (operation.Parent is { } outer)
            operation = outer;
        return operation;
    }

    /// <summary>The expression that a method is called on; null for the type itself.</summary>
    public static IOperation? Receiver(this IInvocationOperation call) =>
        call.Instance ?? (call.TargetMethod.IsExtensionMethod ? call.Arguments.FirstOrDefault(argument => argument.Parameter?.Ordinal == 0)?.Value : null);

    public static bool IsOrImplements(this ITypeSymbol type, ITypeSymbol other) =>
        SymbolEqualityComparer.Default.Equals(type.OriginalDefinition, other)
        || type.AllInterfaces.Any(implemented => SymbolEqualityComparer.Default.Equals(implemented.OriginalDefinition, other));

    /// <summary>Where the name of the called method stands.</summary>
    public static Location NameLocation(this IInvocationOperation call)
    {
        var called = (call.Syntax as InvocationExpressionSyntax)?.Expression;
        var name = called switch
        {
            MemberAccessExpressionSyntax member => member.Name,
            MemberBindingExpressionSyntax member => member.Name,
            _ => called as SimpleNameSyntax,
        };
        return name?.Identifier.GetLocation() ?? call.Syntax.GetLocation();
    }

    /// <summary>The operation around this one, past conversions, past the branches of a choice and past the <c>?.</c> that it stands behind.</summary>
    public static IOperation? Consumer(this IOperation operation)
    {
        var (inner, consumer) = (operation, operation.Parent);
        while (consumer is IConversionOperation or IParenthesizedOperation or IConditionalOperation { Type: not null } or ICoalesceOperation or ISwitchExpressionArmOperation or ISwitchExpressionOperation
            || (consumer is IConditionalAccessOperation access && access.WhenNotNull == inner))
            (inner, consumer) = (consumer, consumer.Parent);
        return consumer;
    }

    /// <summary>The method, local function or lambda that an operation belongs to; the lambda's has no name.</summary>
    public static IMethodSymbol? Function(this IOperation operation, ISymbol containing)
    {
        for (var outer = operation.Parent; outer is not null; outer = outer.Parent)
        {
            if (outer is IAnonymousFunctionOperation lambda)
                return lambda.Symbol;
            if (outer is ILocalFunctionOperation local)
                return local.Symbol;
        }

        return containing as IMethodSymbol;
    }
}
