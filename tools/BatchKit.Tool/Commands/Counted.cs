namespace BatchKit.Tool.Commands;

/// <summary>Numbers with their noun.</summary>
internal static class Counted
{
    public static string Messages(long count) => count == 1 ? "1 message" : $"{count:N0} messages";
}
