using BatchKit.Benchmarks.Children;

namespace BatchKit.Bench.Tests;

/// <summary>How long a part of a suite may take.</summary>
public sealed class ChildProcessTests : IDisposable
{
    private readonly ChildProcess _child = Start();

    public void Dispose() => _child.Dispose();

    [Fact]
    public void A_process_whose_work_comes_on_may_take_many_times_the_limit_for_its_answer()
    {
        var progress = 0;

        var answer = _child.Ask("begin", () =>
        {
            if (++progress == 3)
                _child.Write("end");
            return progress;
        });

        Assert.Equal([7, 8], answer);
        Assert.True(progress >= 3);
    }

    [Fact]
    public void A_process_whose_work_stands_still_for_the_limit_is_an_error()
    {
        var asked = 0;

        var error = Assert.Throws<InvalidOperationException>(() => _child.Ask("begin", () => Math.Min(++asked, 3)));

        Assert.Contains("did not answer within", error.Message, StringComparison.Ordinal);
        Assert.Equal(4, asked);
    }

    [Fact]
    public void A_process_whose_work_no_one_sees_has_the_limit_once() => Assert.Throws<InvalidOperationException>(() => _child.Ask("begin"));

    // It answers its second command.
    private static ChildProcess Start()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "It is a shell's script.");
        var child = ChildProcess.StartProgram("sh", "-c", "read begin; read end; echo 7 8; read rest");
        child.AnswerLimit = TimeSpan.FromMilliseconds(1);
        return child;
    }
}
