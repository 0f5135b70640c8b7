using System.ComponentModel.DataAnnotations;
using System.Globalization;
using System.Reflection;
using Microsoft.Extensions.Options;

namespace BatchKit.Architecture.Tests;

/// <summary>Every setting that has a range: both ends are accepted, and one step beyond each is rejected with an error that names the setting and both ends.</summary>
public sealed class OptionsLimitTests
{
    private static readonly Validator[] Validators =
    [
        .. Repository.Packages.SelectMany(package => Assembly.Load(package).GetTypes()).Where(type => type is { IsGenericType: false, IsAbstract: false })
            .SelectMany(type => type.GetInterfaces().Where(IsRules).Select(rules => new Validator(rules.GetGenericArguments()[0], rules, Activator.CreateInstance(type)!))),
    ];

    public static TheoryData<string> Settings => [.. AllSettings().Select(setting => setting.Path)];

    [Fact]
    public void Every_range_in_the_packages_is_checked_here()
    {
        var found = AllSettings().Select(setting => setting.Property).ToHashSet();

        var ranges = Repository.Packages.SelectMany(package => Assembly.Load(package).GetTypes()).SelectMany(type => type.GetProperties()).Where(property => RangeOf(property) is not null);

        Assert.DoesNotContain(ranges, property => !found.Contains(property));
        Assert.True(found.Count > 100, $"{found.Count} settings have a range.");
    }

    [Theory]
    [MemberData(nameof(Settings))]
    public void Both_ends_are_accepted_and_one_beyond_is_rejected_by_name(string path)
    {
        var setting = AllSettings().Single(other => other.Path == path);
        var range = RangeOf(setting.Property)!;

        Assert.DoesNotContain(setting.FailuresWith(range.Least), failure => IsOutOfRange(failure, setting, range));
        Assert.DoesNotContain(setting.FailuresWith(range.Most), failure => IsOutOfRange(failure, setting, range));
        if (range.BelowLeast is { } below)
            Assert.Contains(setting.FailuresWith(below), failure => IsOutOfRange(failure, setting, range));
        if (range.AboveMost is { } above)
            Assert.Contains(setting.FailuresWith(above), failure => IsOutOfRange(failure, setting, range));
    }

    private static bool IsOutOfRange(string failure, Setting setting, SettingRange range) =>
        failure.Contains(setting.Property.Name, StringComparison.Ordinal) && range.Rules.Any(rule => failure.Contains(rule, StringComparison.Ordinal));

    private static IEnumerable<Setting> AllSettings() => Validators.SelectMany(validator => SettingsOf(validator, validator.Type, []));

    private static IEnumerable<Setting> SettingsOf(Validator validator, Type type, PropertyInfo[] outer)
    {
        foreach (var property in type.GetProperties().Where(property => property.SetMethod?.IsPublic == true))
        {
            var inner = property.PropertyType is { IsGenericType: true } list && list.GetGenericTypeDefinition() == typeof(IList<>) ? list.GetGenericArguments()[0] : property.PropertyType;
            if (RangeOf(property) is not null)
                yield return new Setting(validator, [.. outer, property]);
            else if (inner.Namespace?.StartsWith("BatchKit", StringComparison.Ordinal) == true && inner.GetConstructor([]) is not null)
            {
                foreach (var setting in SettingsOf(validator, inner, [.. outer, property]))
                    yield return setting;
            }
        }
    }

    private static bool IsRules(Type type) => type.IsGenericType && type.GetGenericTypeDefinition() == typeof(IValidateOptions<>);

    internal static SettingRange? RangeOf(PropertyInfo property)
    {
        var type = Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType;
        foreach (var attribute in property.GetCustomAttributesData())
        {
            var arguments = attribute.ConstructorArguments.Select(argument => argument.Value!).ToArray();
            switch (attribute.AttributeType.Name)
            {
                case "NumberRangeAttribute" or nameof(RangeAttribute):
                    return SettingRange.OfNumbers(Number(arguments[0]), Number(arguments[1]), type);
                case "TimeSpanRangeAttribute":
                    return SettingRange.OfTimes((string)arguments[0], (string)arguments[1]);
                case nameof(StringLengthAttribute):
                    return SettingRange.OfTexts(
                        Number(attribute.NamedArguments.Single(argument => argument.MemberName == nameof(StringLengthAttribute.MinimumLength)).TypedValue.Value!), Number(arguments[0]));
                default:
                    break;
            }
        }

        return null;

        static long Number(object value) => Convert.ToInt64(value, CultureInfo.InvariantCulture);
    }

    /// <summary>The rules of one type of options.</summary>
    private sealed record Validator(Type Type, Type Rules, object Instance)
    {
        public IEnumerable<string> Check(object options)
        {
            var result = (ValidateOptionsResult)Rules.GetMethod(nameof(IValidateOptions<object>.Validate))!.Invoke(Instance, [null, options])!;
            return result.Failures ?? [];
        }
    }

    /// <summary>A setting with a range, by the properties that lead to it.</summary>
    private sealed record Setting(Validator Validator, PropertyInfo[] Way)
    {
        public PropertyInfo Property => Way[^1];

        public string Path => $"{Validator.Type.Name}.{string.Join('.', Way.Select(property => property.Name))}";

        /// <summary>Returns what the rules say when this setting alone has another value than its default.</summary>
        public string[] FailuresWith(object value)
        {
            var options = Activator.CreateInstance(Validator.Type)!;
            var owner = options;
            foreach (var property in Way[..^1])
            {
                var isList = property.PropertyType.IsGenericType;
                var inner = Activator.CreateInstance(isList ? property.PropertyType.GetGenericArguments()[0] : property.PropertyType)!;
                if (isList)
                    ((System.Collections.IList)property.GetValue(owner)!).Add(inner);
                else
                    property.SetValue(owner, inner);
                owner = inner;
            }

            Property.SetValue(owner, value);
            return [.. Validator.Check(options)];
        }
    }

    /// <summary>The ends of a range, and the values beyond them, where the type has such values.</summary>
    internal sealed record SettingRange(object Least, object Most, object? BelowLeast, object? AboveMost, string[] Rules)
    {
        public static SettingRange OfNumbers(long least, long most, Type type)
        {
            var (smallest, largest) = type == typeof(long) ? (long.MinValue, long.MaxValue) : (int.MinValue, int.MaxValue);
            return new(Of(least), Of(most), least > smallest ? Of(least - 1) : null, most < largest ? Of(most + 1) : null, [$"must be between {Text(least)} and {Text(most)}."]);

            object Of(long number) => Convert.ChangeType(number, type, CultureInfo.InvariantCulture);
        }

        public static SettingRange OfTimes(string least, string most) =>
            new(Time(least), Time(most), Time(least) - TimeSpan.FromTicks(1), Time(most) + TimeSpan.FromTicks(1), [$"must be between {least} and {most}."]);

        // An empty text may break the rule that a text is required first.
        public static SettingRange OfTexts(long least, long most) => new(
            new string('x', (int)least), new string('x', (int)most), new string('x', (int)least - 1), new string('x', (int)most + 1),
            [$"minimum length of {Text(least)} and a maximum length of {Text(most)}.", "is required."]);

        private static TimeSpan Time(string text) => TimeSpan.Parse(text, CultureInfo.InvariantCulture);

        private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
    }
}
