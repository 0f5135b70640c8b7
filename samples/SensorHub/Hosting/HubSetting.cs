namespace SensorHub.Hosting;

/// <summary>One setting of the command line and the environment, with its text for the help.</summary>
/// <param name="Name">Its name without the two hyphens, such as <c>client-id</c>.</param>
/// <param name="Values">The values that it takes, for the help; empty for a switch.</param>
/// <param name="Summary">What it does, for the help.</param>
/// <param name="Apply">Sets the option from a text; throws a <see cref="FormatException"/> that names the allowed values.</param>
internal sealed record HubSetting(string Name, string Values, string Summary, Action<HubOptions, string> Apply)
{
    public string Argument => "--" + Name;

    public bool IsSwitch => Values.Length == 0;

    /// <summary>True when the value may contain a password and must not be shown.</summary>
    public bool IsSecret => Name is "server" or "password";

    public string EnvironmentVariable { get; } = "SENSORHUB_" + Name.Replace('-', '_').ToUpperInvariant();
}
