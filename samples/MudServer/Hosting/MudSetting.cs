namespace MudServer.Hosting;

/// <summary>One setting: its name on the command line, what it takes, what it does, and how it gets into the options.</summary>
/// <param name="Name">Without dashes in front: <c>http-port</c>.</param>
/// <param name="Values">What it takes, for the help.</param>
/// <param name="Summary">What it is for.</param>
/// <param name="Apply">Sets it; throws a <see cref="FormatException"/> that says what it takes.</param>
internal sealed record MudSetting(string Name, string Values, string Summary, Action<MudOptions, string> Apply)
{
    public string Argument => "--" + Name;

    public string EnvironmentVariable { get; } = "MUD_" + Name.Replace('-', '_').ToUpperInvariant();

    public string FileKey { get; } = Name.Replace("-", string.Empty, StringComparison.Ordinal);
}
