namespace BatchKit.Postgres;

/// <summary>Converts a time limit to the whole seconds of an Npgsql command's timeout.</summary>
internal static class WholeSeconds
{
    // Rounded up, and at least 1, because 0 would mean no limit.
    public static int Of(TimeSpan limit) => Math.Max(1, (int)Math.Ceiling(limit.TotalSeconds));
}
