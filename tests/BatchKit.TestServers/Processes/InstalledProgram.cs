namespace BatchKit.TestServers.Processes;

/// <summary>Finds programs of the system that tests run.</summary>
public static class InstalledProgram
{
    // A user's PATH may lack where Debian and Homebrew keep servers, and root's where Debian keeps MUD clients.
    private static readonly string[] Folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin", "/usr/games"];

    /// <summary>Looks for a program on the PATH, and in the usual folders behind it.</summary>
    /// <returns>Its path, or null when it is not installed.</returns>
    public static string? Find(string name) =>
        (Environment.GetEnvironmentVariable("PATH") ?? string.Empty).Split(Path.PathSeparator).Concat(Folders)
            .Select(folder => Path.Combine(folder, name)).FirstOrDefault(File.Exists);
}
