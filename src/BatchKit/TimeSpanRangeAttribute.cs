using System.ComponentModel.DataAnnotations;
using System.Globalization;

namespace BatchKit;

/// <summary>Says between which times an option must lie, both included. Unlike <see cref="RangeAttribute"/> with a type, it is safe to trim.</summary>
/// <param name="minimum">The least, as in <c>00:00:01</c>.</param>
/// <param name="maximum">The most.</param>
[AttributeUsage(AttributeTargets.Property)]
public sealed class TimeSpanRangeAttribute(string minimum, string maximum) : ValidationAttribute
{
    /// <summary>The least.</summary>
    public string Minimum { get; } = minimum;

    /// <summary>The most.</summary>
    public string Maximum { get; } = maximum;

    /// <inheritdoc/>
    public override bool IsValid(object? value) =>
        value is null || (value is TimeSpan time && time >= Parse(Minimum) && time <= Parse(Maximum));

    /// <inheritdoc/>
    public override string FormatErrorMessage(string name) => $"The field {name} must be between {Minimum} and {Maximum}.";

    private static TimeSpan Parse(string text) => TimeSpan.Parse(text, CultureInfo.InvariantCulture);
}
