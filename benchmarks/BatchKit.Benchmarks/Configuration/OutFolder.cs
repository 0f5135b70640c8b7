namespace BatchKit.Benchmarks.Configuration;

/// <summary>The folder of <c>--out</c>.</summary>
internal static class OutFolder
{
    /// <summary>Makes it and writes to it, so that a long run does not end with a folder that can't be written.</summary>
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

    /// <summary>Writes files into it.</summary>
    /// <exception cref="InvalidOperationException">The disk is full, or the folder can't be written.</exception>
    public static void Write(string folder, Action write)
    {
        try
        {
            write();
        }
        catch (Exception failure) when (failure is IOException or UnauthorizedAccessException)
        {
            throw new InvalidOperationException($"--out: {folder} can't be written: {failure.Message}", failure);
        }
    }
}
