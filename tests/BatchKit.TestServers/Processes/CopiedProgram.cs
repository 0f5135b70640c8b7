namespace BatchKit.TestServers.Processes;

/// <summary>A sample that was copied out of the repository and built there, started in its own folder.</summary>
public sealed class CopiedProgram : SampleProcess
{
    /// <summary>Starts it, and does not wait.</summary>
    /// <param name="folder">The folder of its project, which has the name of its assembly.</param>
    /// <param name="arguments">Its arguments.</param>
    public CopiedProgram(DirectoryInfo folder, params string[] arguments)
        : base(folder.Name, folder.FullName, Path.Combine(folder.FullName, "bin", "Debug", "net10.0", $"{folder.Name}.dll"), arguments)
    {
    }
}
