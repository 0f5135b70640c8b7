namespace WorldTicks.Hosting;

/// <summary>One setting: its name on the command line, what it takes, what it does, and how it gets into the options.</summary>
/// <param name="Name">Without dashes in front: <c>claim-limit</c>.</param>
/// <param name="Role">Who has it.</param>
/// <param name="Values">What it takes, for the help; empty for a switch.</param>
/// <param name="Summary">What it is for.</param>
/// <param name="Apply">Sets it; a bad value is a <see cref="FormatException"/> whose message goes between the name and the value.</param>
internal sealed record TicksSetting(string Name, TicksRole Role, string Values, string Summary, Action<TicksOptions, string> Apply)
{
    public string Argument => $"--{Name}";

    public string EnvironmentVariable => $"WORLDTICKS_{Name.Replace('-', '_').ToUpperInvariant()}";

    public bool IsSwitch => Values.Length == 0;

    public bool IsSecret => Name == "connection";

    public bool IsFor(TicksRole role) => (Role & role) != TicksRole.None;
}
