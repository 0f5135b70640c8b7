namespace BatchKit.TestServers.Processes;

/// <summary>Finds programs of the system that tests run.</summary>
public static class InstalledProgram
{
    // Debian keeps MUD clients here, and root's PATH may lack it.
    private const string Games = "/usr/games";

    /// <summary>Looks for a program on the PATH.</summary>
    /// <returns>Its path, or null when it is not installed.</returns>
    public static string? Find(string name) =>
        (Environment.GetEnvironmentVariable("PATH") ?? string.Empty).Split(Path.PathSeparator).Append(Games)
            .Select(folder => Path.Combine(folder, name)).FirstOrDefault(File.Exists);
}
