namespace BatchKit.Benchmarks.Configuration;

/// <summary>The folder or file of <c>--out</c>.</summary>
internal static class OutPath
{
    /// <summary>Makes a folder and writes to it, so that a long run does not end with a folder that can't be written.</summary>
    /// <exception cref="InvalidOperationException">It can't be written.</exception>
    public static void Require(string? folder)
    {
        if (folder is null)
            return;
        Write(folder, () =>
        {
            Directory.CreateDirectory(folder);
            var probe = Path.Combine(folder, Path.GetRandomFileName());
            File.WriteAllText(probe, folder);
            File.Delete(probe);
        });
    }

    /// <summary>Writes files into a folder.</summary>
    /// <exception cref="InvalidOperationException">The disk is full, or the folder can't be written.</exception>
    public static void Write(string folder, Action write) => Write(folder, write, static (text, failure) => new InvalidOperationException(text, failure));

    /// <summary>Writes files to a path, and names the option when that fails.</summary>
    /// <param name="path">The folder or file.</param>
    /// <param name="write">Writes them.</param>
    /// <param name="error">Creates what is thrown then, which decides how the program ends.</param>
    public static void Write(string path, Action write, Func<string, Exception, Exception> error)
    {
        try
        {
            write();
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            throw error($"--out: {path} can't be written: {failure.Message}", failure);
        }
    }
}
