using BatchKit.Benchmarks.Comparing;

namespace BatchKit.Bench.Tests;

/// <summary>What <c>batchkit-bench compare</c> leaves in the user's repository.</summary>
public sealed class WorktreeTests
{
    [Fact]
    public async Task A_checkout_that_is_interrupted_leaves_no_worktree_in_the_repository()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The filter is a shell's command.");
        using var repository = await BenchRepository.CreateAsync();
        using var scratch = new Scratch();
        using var interruption = new CancellationTokenSource();
        repository.Write(".gitattributes", "slow.txt filter=slow\n");
        repository.Write("slow.txt", "slow\n");
        await repository.CommitAsync("slow");
        await repository.GitAsync("config", "filter.slow.smudge", $"touch '{scratch.In("begun")}' && exec tail -f /dev/null");

        var adding = Worktree.AddAsync(repository.Folder, "HEAD", scratch.In("before"), interruption.Token);
        await Until.TrueAsync(() => File.Exists(scratch.In("begun")));
        await interruption.CancelAsync();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => adding.WithinDeadline());
        Assert.Single((await repository.GitAsync("worktree", "list")).Trim().Split('\n'));
        Assert.False(Directory.Exists(scratch.In("before")));
    }
}
