using System.Reflection;

namespace BatchKit.Architecture.Tests.PublicApi;

/// <summary>Writes a type as C# does: keywords, generic arguments, nullability.</summary>
internal static class TypeText
{
    private static readonly Dictionary<Type, string> Keywords = new()
    {
        [typeof(void)] = "void",
        [typeof(object)] = "object",
        [typeof(string)] = "string",
        [typeof(bool)] = "bool",
        [typeof(byte)] = "byte",
        [typeof(char)] = "char",
        [typeof(short)] = "short",
        [typeof(ushort)] = "ushort",
        [typeof(int)] = "int",
        [typeof(uint)] = "uint",
        [typeof(long)] = "long",
        [typeof(ulong)] = "ulong",
        [typeof(double)] = "double",
        [typeof(float)] = "float",
        [typeof(decimal)] = "decimal",
    };

    public static string NameOf(NullabilityInfo nullability)
    {
        var type = nullability.Type.IsByRef ? nullability.Type.GetElementType()! : nullability.Type;
        var isNullable = nullability.ReadState == NullabilityState.Nullable || nullability.WriteState == NullabilityState.Nullable;
        var mark = isNullable && !type.IsValueType ? "?" : "";
        if (nullability.ElementType is { } element && type.IsArray)
            return $"{NameOf(element)}[]{mark}";
        if (Nullable.GetUnderlyingType(type) is { } underlying)
            return $"{NameOf(underlying)}?";
        return type.IsGenericType && nullability.GenericTypeArguments.Length > 0
            ? $"{SimpleName(type)}<{string.Join(", ", nullability.GenericTypeArguments.Select(NameOf))}>{mark}"
            : NameOf(type) + mark;
    }

    public static string NameOf(Type type)
    {
        if (type.IsByRef)
            return NameOf(type.GetElementType()!);
        if (type.IsArray)
            return $"{NameOf(type.GetElementType()!)}[]";
        if (Nullable.GetUnderlyingType(type) is { } underlying)
            return $"{NameOf(underlying)}?";
        if (Keywords.TryGetValue(type, out var keyword))
            return keyword;
        return type.IsGenericType ? $"{SimpleName(type)}<{string.Join(", ", type.GetGenericArguments().Select(NameOf))}>" : SimpleName(type);
    }

    public static string ConstraintsOf(Type[] generics)
    {
        var text = "";
        foreach (var generic in generics.Where(generic => generic.IsGenericParameter))
        {
            var attributes = generic.GenericParameterAttributes;
            var parts = generic.GetGenericParameterConstraints().Where(constraint => constraint != typeof(ValueType)).Select(NameOf).ToList();
            if (attributes.HasFlag(GenericParameterAttributes.NotNullableValueTypeConstraint))
                parts.Insert(0, "struct");
            else if (attributes.HasFlag(GenericParameterAttributes.ReferenceTypeConstraint))
                parts.Insert(0, "class");
            if (parts.Count > 0)
                text += $" where {generic.Name} : {string.Join(", ", parts)}";
        }

        return text;
    }

    private static string SimpleName(Type type)
    {
        var name = type.Name.Split('`')[0];
        return type is { IsNested: true, IsGenericParameter: false } ? $"{SimpleName(type.DeclaringType!)}.{name}" : name;
    }
}
