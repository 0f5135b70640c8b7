using System.Globalization;
using System.Reflection;
using System.Runtime.CompilerServices;

namespace BatchKit.Architecture.Tests.PublicApi;

/// <summary>Writes a member as a user would declare it: types with their nullability, parameters with names and defaults.</summary>
internal static class MemberText
{
    private static readonly NullabilityInfoContext Nullability = new();

    public static string Describe(MemberInfo member) => member switch
    {
        FieldInfo field => Describe(field),
        PropertyInfo property => Describe(property),
        EventInfo occurrence => $"{ModifierOf(occurrence.AddMethod!)}event {TypeText.NameOf(Nullability.Create(occurrence))} {occurrence.Name}",
        ConstructorInfo constructor => $"{ModifierOf(constructor)}new({ParametersOf(constructor)})",
        MethodInfo method => Describe(method),
        _ => throw new ArgumentOutOfRangeException(nameof(member), member, "A kind of member that this text has no words for."),
    };

    private static string Describe(FieldInfo field)
    {
        if (field.IsLiteral && field.DeclaringType!.IsEnum)
            return $"{field.Name} = {Convert.ToInt64(field.GetRawConstantValue(), CultureInfo.InvariantCulture)}";
        var type = TypeText.NameOf(Nullability.Create(field));
        return field.IsLiteral
            ? $"const {type} {field.Name} = {ValueText(field.GetRawConstantValue(), field.FieldType)}"
            : $"{(field.IsStatic ? "static " : "")}{(field.IsInitOnly ? "readonly " : "")}{type} {field.Name}";
    }

    private static string Describe(PropertyInfo property)
    {
        var getter = property.GetMethod is { } get && (get.IsPublic || get.IsFamily || get.IsFamilyOrAssembly) ? "get; " : "";
        var setter = property.SetMethod is { } set && (set.IsPublic || set.IsFamily || set.IsFamilyOrAssembly)
            ? set.ReturnParameter.GetRequiredCustomModifiers().Contains(typeof(IsExternalInit)) ? "init; " : "set; "
            : "";
        var required = property.IsDefined(typeof(RequiredMemberAttribute), inherit: false) ? "required " : "";
        var index = property.GetIndexParameters();
        var name = index.Length == 0 ? property.Name : $"this[{string.Join(", ", index.Select(Describe))}]";
        return $"{ModifierOf(property.GetAccessors(nonPublic: true)[0])}{required}{TypeText.NameOf(Nullability.Create(property))} {name} {{ {getter}{setter}}}";
    }

    private static string Describe(MethodInfo method)
    {
        var generics = method.GetGenericArguments();
        var names = generics.Length == 0 ? "" : $"<{string.Join(", ", generics.Select(TypeText.NameOf))}>";
        var returns = TypeText.NameOf(Nullability.Create(method.ReturnParameter));
        return $"{ModifierOf(method)}{returns} {method.Name}{names}({ParametersOf(method)}){TypeText.ConstraintsOf(generics)}";
    }

    private static string ParametersOf(MethodBase method)
    {
        var isExtension = method.IsDefined(typeof(ExtensionAttribute), inherit: false);
        return (isExtension ? "this " : "") + string.Join(", ", method.GetParameters().Select(Describe));
    }

    private static string Describe(ParameterInfo parameter)
    {
        var isParams = parameter.IsDefined(typeof(ParamArrayAttribute), inherit: false) || parameter.IsDefined(typeof(ParamCollectionAttribute), inherit: false);
        var way = isParams ? "params " : parameter.IsOut ? "out " : parameter.IsIn ? "in " : parameter.ParameterType.IsByRef ? "ref " : "";
        var value = parameter.HasDefaultValue ? $" = {ValueText(parameter.RawDefaultValue, parameter.ParameterType)}" : "";
        return $"{way}{TypeText.NameOf(Nullability.Create(parameter))} {parameter.Name}{value}";
    }

    private static string ModifierOf(MethodBase method)
    {
        var reach = method.IsPublic ? "" : "protected ";
        var isOverride = method is MethodInfo { IsVirtual: true } declared && declared.GetBaseDefinition().DeclaringType != declared.DeclaringType;
        var kind = method.IsStatic ? "static "
            : method.DeclaringType!.IsInterface ? method.IsAbstract ? "" : "virtual "
            : isOverride ? "override "
            : method.IsAbstract ? "abstract "
            : method is { IsVirtual: true, IsFinal: false } ? "virtual " : "";
        return reach + kind;
    }

    private static string ValueText(object? value, Type type) => value switch
    {
        null => type.IsValueType && Nullable.GetUnderlyingType(type) is null ? "default" : "null",
        string text => $"\"{text}\"",
        bool truth => truth ? "true" : "false",
        _ when type.IsEnum => $"{TypeText.NameOf(type)}.{Enum.ToObject(type, value)}",
        _ => Convert.ToString(value, CultureInfo.InvariantCulture)!,
    };
}
