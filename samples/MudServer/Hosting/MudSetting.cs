namespace MudServer.Hosting;

/// <summary>One setting of the command line and the environment, with its text for the help.</summary>
/// <param name="Name">Its name without the two hyphens, such as <c>http-port</c>.</param>
/// <param name="Values">The values that it takes, for the help.</param>
/// <param name="Summary">What it does, for the help.</param>
/// <param name="Apply">Sets the option from a text; throws a <see cref="FormatException"/> that names the allowed values.</param>
internal sealed record MudSetting(string Name, string Values, string Summary, Action<MudOptions, string> Apply)
{
    public string Argument => "--" + Name;

    public string EnvironmentVariable { get; } = "MUD_" + Name.Replace('-', '_').ToUpperInvariant();

    public string FileKey { get; } = Name.Replace("-", string.Empty, StringComparison.Ordinal);
}
