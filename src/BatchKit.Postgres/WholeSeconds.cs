namespace BatchKit.Postgres;

/// <summary>A time limit as Npgsql's commands take it.</summary>
internal static class WholeSeconds
{
    // Up, and at least one, because 0 would be no limit.
    public static int Of(TimeSpan limit) => Math.Max(1, (int)Math.Ceiling(limit.TotalSeconds));
}
