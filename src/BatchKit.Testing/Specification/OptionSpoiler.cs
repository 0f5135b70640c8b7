using System.Diagnostics.CodeAnalysis;
using System.Reflection;

namespace BatchKit.Testing.Specification;

/// <summary>Gives every property of an options object a value that breaks a transport that reads it late.</summary>
internal static class OptionSpoiler
{
    [RequiresUnreferencedCode("Finds the properties by reflection.")]
    public static void Spoil(object options)
    {
        foreach (var property in options.GetType().GetProperties(BindingFlags.Public | BindingFlags.Instance))
        {
            if (property.GetIndexParameters().Length == 0 && property.SetMethod is { IsPublic: true })
                property.SetValue(options, Spoiled(property, options));
        }
    }

    private static object? Spoiled(PropertyInfo property, object options)
    {
        var type = Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType;
        if (type == typeof(string))
            return "changed-later";
        if (type == typeof(bool))
            return property.GetValue(options) is not true;
        if (type == typeof(int))
            return -1;
        if (type == typeof(long))
            return -1L;
        if (type == typeof(TimeSpan))
            return TimeSpan.Zero;
        return type.IsEnum || type.IsValueType ? property.GetValue(options) : null;
    }
}
