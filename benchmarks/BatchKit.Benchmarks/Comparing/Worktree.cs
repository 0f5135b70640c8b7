using BatchKit.Benchmarks.Projects;

namespace BatchKit.Benchmarks.Comparing;

/// <summary>A commit, checked out into a folder of its own until it is disposed.</summary>
internal sealed class Worktree : IAsyncDisposable
{
    private readonly string _repository;

    private Worktree(string repository, string folder, string commit) => (_repository, Folder, Commit) = (repository, folder, commit);

    public string Folder { get; }

    /// <summary>The full hash.</summary>
    public string Commit { get; }

    /// <param name="repository">The repository's root.</param>
    /// <param name="name">A commit, tag or branch.</param>
    /// <param name="folder">Where it is put; it must not exist.</param>
    /// <param name="cancellationToken">Ends the command.</param>
    /// <exception cref="UsageException">The repository has no such commit.</exception>
    public static async Task<Worktree> AddAsync(string repository, string name, string folder, CancellationToken cancellationToken)
    {
        var worktree = new Worktree(repository, folder, await FindAsync(repository, name, cancellationToken));
        try
        {
            await GitAsync(repository, ["worktree", "add", "--detach", "--quiet", folder, worktree.Commit], cancellationToken);
            return worktree;
        }
        catch
        {
            await worktree.DisposeAsync();
            throw;
        }
    }

    /// <summary>The root of the repository that a folder is in.</summary>
    /// <exception cref="UsageException">It is in none.</exception>
    public static async Task<string> FindRepositoryAsync(string folder, CancellationToken cancellationToken)
    {
        try
        {
            return (await GitAsync(folder, ["rev-parse", "--show-toplevel"], cancellationToken)).Trim();
        }
        catch (InvalidOperationException failure)
        {
            throw new UsageException($"{folder} is in no git repository with a working tree: {failure.Message.Split('\n').ElementAtOrDefault(1)}");
        }
    }

    // Also behind Ctrl-C, so without a token: a worktree that was removed by hand would stay in git's list.
    public async ValueTask DisposeAsync()
    {
        try
        {
            // Twice, because a checkout that was killed has left its lock, and git prunes no locked one.
            await GitAsync(_repository, ["worktree", "remove", "--force", "--force", Folder], CancellationToken.None);
        }
        catch (InvalidOperationException)
        {
            // It was never added, or only in part.
        }

        if (Directory.Exists(Folder))
            Directory.Delete(Folder, recursive: true);
        await GitAsync(_repository, ["worktree", "prune"], CancellationToken.None);
    }

    private static async Task<string> FindAsync(string repository, string name, CancellationToken cancellationToken)
    {
        try
        {
            return (await GitAsync(repository, ["rev-parse", "--verify", "--quiet", "--end-of-options", $"{name}^{{commit}}"], cancellationToken)).Trim();
        }
        catch (InvalidOperationException)
        {
            throw new UsageException($"The repository {repository} has no commit {name}.");
        }
    }

    private static Task<string> GitAsync(string folder, IEnumerable<string> arguments, CancellationToken cancellationToken) => ExternalProgram.RunAsync(folder, "git", arguments, cancellationToken);
}
