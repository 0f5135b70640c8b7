namespace BatchKit.Tool.Output;

/// <summary>Writes an age as people say it.</summary>
internal static class AgeText
{
    /// <summary>In its two largest units.</summary>
    public static string Of(TimeSpan age) => age switch
    {
        { Ticks: < 0 } => "0 s",
        { TotalSeconds: < 60 } => $"{age.Seconds} s",
        { TotalMinutes: < 60 } => $"{age.Minutes} min {age.Seconds} s",
        { TotalHours: < 24 } => $"{age.Hours} h {age.Minutes} min",
        _ => $"{age.Days} d {age.Hours} h",
    };

    /// <summary>In its largest unit.</summary>
    public static string Roughly(TimeSpan age) => age switch
    {
        { Ticks: < 0 } => "0 s",
        { TotalSeconds: < 60 } => $"{age.Seconds} s",
        { TotalMinutes: < 60 } => $"{age.Minutes} min",
        { TotalHours: < 24 } => $"{age.Hours} h",
        _ => $"{age.Days} d",
    };
}
