namespace BatchKit.Bench.Tests;

/// <summary>What <c>batchkit-bench compare</c> says when it can't compare: one line, before anything is built.</summary>
public sealed class CompareErrorTests
{
    [Fact]
    public async Task A_rooted_project_is_that_of_the_commits_and_not_the_one_on_the_disk()
    {
        using var repository = await BenchRepository.CreateAsync();
        repository.Write("later/Later.csproj", "<Project />");

        var run = await BenchRun.RunAsync(repository.Folder, "compare", "HEAD", "HEAD", "--project", repository.In("later", "Later.csproj"));

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.Matches($"^The commit [0-9a-f]{{10}} has no project {Path.Combine("later", "Later.csproj")}, ", run.Errors);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Theory]
    [InlineData("/")]
    [InlineData("..")]
    [InlineData("bench/../../bench")]
    public async Task A_project_outside_of_the_repository_is_refused(string project)
    {
        using var repository = await BenchRepository.CreateAsync();
        var root = (await repository.GitAsync("rev-parse", "--show-toplevel")).Trim();

        var run = await BenchRun.RunAsync(repository.Folder, "compare", "HEAD", "HEAD", "--project", project);

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.Equal($"--project: {project} is outside of {root}, the root of the repository.", run.Errors.Trim());
    }

    [Fact]
    public async Task A_folder_in_no_repository_is_told_with_the_words_of_git()
    {
        using var scratch = new Scratch();

        var run = await BenchRun.RunAsync(scratch.Folder, "compare", "HEAD~1", "HEAD");

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.Contains("is in no git repository with a working tree: fatal: ", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }

    [Fact]
    public async Task Git_that_is_not_installed_is_named()
    {
        using var scratch = new Scratch();

        var run = await BenchRun.RunAloneAsync(scratch.Folder, "compare", "HEAD~1", "HEAD");

        Assert.True(run.ExitCode == 2, run.Text);
        Assert.StartsWith("'git' can't be started. Install it, or add its folder to the PATH: ", run.Errors, StringComparison.Ordinal);
        Assert.Single(run.Errors.Trim().Split('\n'));
    }
}
