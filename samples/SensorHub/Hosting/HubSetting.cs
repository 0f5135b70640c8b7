namespace SensorHub.Hosting;

/// <summary>One setting: its name on the command line, what it takes, what it does, and how it gets into the options.</summary>
/// <param name="Name">Without dashes in front: <c>client-id</c>.</param>
/// <param name="Values">What it takes, for the help; empty for a switch.</param>
/// <param name="Summary">What it is for.</param>
/// <param name="Apply">Sets it; throws a <see cref="FormatException"/> that says what it takes.</param>
internal sealed record HubSetting(string Name, string Values, string Summary, Action<HubOptions, string> Apply)
{
    public string Argument => "--" + Name;

    public bool IsSwitch => Values.Length == 0;

    /// <summary>True where the value must not be shown: it may be a password, or hold one.</summary>
    public bool IsSecret => Name is "server" or "password";

    public string EnvironmentVariable { get; } = "SENSORHUB_" + Name.Replace('-', '_').ToUpperInvariant();
}
