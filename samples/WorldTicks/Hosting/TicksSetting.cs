namespace WorldTicks.Hosting;

/// <summary>One setting of the command line and the environment, with its text for the help.</summary>
/// <param name="Name">Its name without the two hyphens, such as <c>claim-limit</c>.</param>
/// <param name="Role">The roles that have it.</param>
/// <param name="Values">The values that it takes, for the help; empty for a switch.</param>
/// <param name="Summary">What it does, for the help.</param>
/// <param name="Apply">Sets the option from a text; throws a <see cref="FormatException"/> that names the allowed values. Its message is shown between the name and the value.</param>
internal sealed record TicksSetting(string Name, TicksRole Role, string Values, string Summary, Action<TicksOptions, string> Apply)
{
    public string Argument => $"--{Name}";

    public string EnvironmentVariable => $"WORLDTICKS_{Name.Replace('-', '_').ToUpperInvariant()}";

    public bool IsSwitch => Values.Length == 0;

    public bool IsSecret => Name == "connection";

    public bool IsFor(TicksRole role) => (Role & role) != TicksRole.None;
}
