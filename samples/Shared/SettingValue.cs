using System.Globalization;

namespace Shared;

/// <summary>Reads the values of settings. Each throws a <see cref="FormatException"/> that names the allowed values.</summary>
internal static class SettingValue
{
    /// <summary>The value of a switch that the command line names without a value.</summary>
    public const string On = "on";

    public static bool Switch(string value) => value.ToLowerInvariant() switch
    {
        On => true,
        "off" => false,
        _ => throw new FormatException("takes on or off"),
    };

    public static int Number(string value, int least, int most) =>
        int.TryParse(value, NumberStyles.None, CultureInfo.InvariantCulture, out var number) && number >= least && number <= most
            ? number
            : throw new FormatException($"takes a number from {least} to {most}");

    public static string Text(string value) =>
        string.IsNullOrWhiteSpace(value) ? throw new FormatException("takes a text that is not empty") : value;
}
