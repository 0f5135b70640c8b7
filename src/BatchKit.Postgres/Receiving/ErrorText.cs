using System.Text;

namespace BatchKit.Postgres.Receiving;

/// <summary>A reason as the tables take it: not longer than a page, and without what PostgreSQL refuses in a text.</summary>
internal static class ErrorText
{
    public const int MaxLength = 4000;

    public static string Of(string? reason)
    {
        if (string.IsNullOrEmpty(reason))
            return "No reason was given.";
        var text = reason.Length > MaxLength ? string.Concat(reason.AsSpan(0, MaxLength - 1), "…") : reason;
        // PostgreSQL stores no NUL, and UTF-8 has no half of a surrogate pair; the cut may have made one.
        return Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text)).Replace('\0', '\uFFFD');
    }
}
