namespace Shared;

/// <summary>Formats figures in the same way for every view.</summary>
internal static class Shown
{
    public const string Good = "green";
    public const string Bad = "red";
    public const string Notable = "yellow";

    // The border, the padding and the column of names.
    public const int FrameWidth = 17;

    public static string Count(double number) => number.ToString("N0");

    public static string Ratio(double? number) => number is { } value ? value.ToString("N1") : "-";

    public static string Time(TimeSpan? time) => time switch
    {
        null => "-",
        { TotalSeconds: >= 1 } value => $"{value.TotalSeconds:N1} s",
        { } value => $"{value.TotalMilliseconds:N1} ms",
    };

    public static string Clock(TimeSpan time) => time.ToString(@"hh\:mm\:ss");

    public static string Rate(double rate) => $"[bold]{Count(rate),8}/s[/]";

    /// <summary>Formats a count that should be 0, and colours it when it is not.</summary>
    public static string Marked(long count, string colour) => count <= 0 ? "0" : $"[{colour}]{Count(count)}[/]";

    /// <summary>Cuts a text to the width of a line.</summary>
    public static string Cut(string text, int width) => text.Length <= width ? text : text[..Math.Max(0, width - 1)] + "…";
}
