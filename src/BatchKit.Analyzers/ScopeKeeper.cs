using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace BatchKit.Analyzers;

/// <summary>Finds the field or property that keeps a value beyond its method.</summary>
internal static class ScopeKeeper
{
    /// <summary>The member that a value is assigned or added to; null for a local variable.</summary>
    public static ISymbol? Of(IOperation value) => value.Consumer() switch
    {
        IAssignmentOperation { Target: var target } and not IDeconstructionAssignmentOperation => MemberOf(target),
        IFieldInitializerOperation initializer => initializer.InitializedFields[0],
        IPropertyInitializerOperation initializer => initializer.InitializedProperties[0],
        ITupleOperation tuple when tuple.Consumer() is IDeconstructionAssignmentOperation { Target: ITupleOperation targets } =>
            MemberOf(targets.Elements[tuple.Elements.TakeWhile(element => !element.DescendantsAndSelf().Contains(value)).Count()]),
        IArgumentOperation { Parent: IInvocationOperation { TargetMethod.Name: "Add" or "TryAdd" or "Enqueue" or "Push" } call } => MemberOf(call.Instance),
        _ => null,
    };

    // An element is kept by the member that has the collection.
    private static ISymbol? MemberOf(IOperation? place) => place switch
    {
        IPropertyReferenceOperation { Property.IsIndexer: true, Instance: var collection } => MemberOf(collection),
        IArrayElementReferenceOperation { ArrayReference: var array } => MemberOf(array),
        IMemberReferenceOperation { Member: var member } => member,
        _ => null,
    };
}
