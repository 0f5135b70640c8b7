using System.Reflection;
using System.Runtime.CompilerServices;
using System.Text;

namespace BatchKit.Architecture.Tests.PublicApi;

/// <summary>Writes what a user of an assembly can touch, a line each, in an order that does not depend on the source's.</summary>
internal static class PublicApiText
{
    private const BindingFlags Declared = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly;

    public static string Describe(Assembly assembly)
    {
        var text = new StringBuilder();
        foreach (var type in assembly.GetExportedTypes().OrderBy(type => type.FullName, StringComparer.Ordinal))
        {
            text.Append(DescribeType(type)).Append('\n');
            foreach (var member in type.GetMembers(Declared).Where(IsVisible).Select(MemberText.Describe).Order(StringComparer.Ordinal))
                text.Append("    ").Append(member).Append('\n');
            text.Append('\n');
        }

        return text.ToString();
    }

    private static string DescribeType(Type type)
    {
        var name = $"{type.Namespace}.{TypeText.NameOf(type)}";
        if (type.IsEnum)
            return $"enum {name} : {TypeText.NameOf(Enum.GetUnderlyingType(type))}";

        var bases = type.GetInterfaces().Where(static one => one.IsVisible).Except(type.BaseType?.GetInterfaces() ?? []).Select(TypeText.NameOf).Order(StringComparer.Ordinal).ToList();
        if (type.BaseType is not null && type.BaseType != typeof(object) && type.BaseType != typeof(ValueType))
            bases.Insert(0, TypeText.NameOf(type.BaseType));
        return $"{KindOf(type)} {name}{(bases.Count == 0 ? "" : " : ")}{string.Join(", ", bases)}{TypeText.ConstraintsOf(type.GetGenericArguments())}";
    }

    private static string KindOf(Type type)
    {
        if (type.IsInterface)
            return "interface";
        if (type.BaseType == typeof(MulticastDelegate))
            return "delegate";
        var isRecord = type.GetMethod("PrintMembers", Declared) is not null || type.GetMethod("<Clone>$", Declared) is not null;
        var record = isRecord ? "record " : "";
        if (type.IsValueType)
        {
            var isReadOnly = type.IsDefined(typeof(IsReadOnlyAttribute), inherit: false);
            return $"{(isReadOnly ? "readonly " : "")}{(type.IsByRefLike ? "ref " : "")}{record}struct";
        }

        var modifier = type is { IsAbstract: true, IsSealed: true } ? "static " : type.IsAbstract ? "abstract " : type.IsSealed ? "sealed " : "";
        return $"{modifier}{record}class";
    }

    private static bool IsVisible(MemberInfo member) => member switch
    {
        Type => false,
        FieldInfo field => (field.IsPublic || field.IsFamily || field.IsFamilyOrAssembly) && !field.IsSpecialName,
        PropertyInfo property => property.GetAccessors(nonPublic: true).Any(IsReachable),
        EventInfo occurrence => IsReachable(occurrence.AddMethod!),
        ConstructorInfo constructor => !constructor.IsStatic && IsReachable(constructor),
        MethodInfo method => IsReachable(method) && !IsAccessor(method) && !method.IsDefined(typeof(CompilerGeneratedAttribute), inherit: false),
        _ => false,
    };

    private static bool IsAccessor(MethodInfo method) => method.IsSpecialName && !method.Name.StartsWith("op_", StringComparison.Ordinal);

    private static bool IsReachable(MethodBase method) => method.IsPublic || method.IsFamily || method.IsFamilyOrAssembly;
}
