using BatchKit.Broadcast.Connections;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class LazyCompletionTests
{
    private const int Races = 2_000;

    private LazyCompletion<int> _completion;

    [Fact]
    public async Task The_first_result_counts()
    {
        var isFirst = _completion.TrySet(1);
        var isSecond = _completion.TrySet(2);

        Assert.True(isFirst);
        Assert.False(isSecond);
        Assert.True(_completion.IsSet);
        Assert.Equal(1, await _completion.Task);
    }

    [Fact]
    public async Task A_task_that_was_asked_for_early_completes_with_the_result()
    {
        var early = _completion.Task;
        var wasSet = early.IsCompleted;

        _completion.TrySet(3);

        Assert.False(wasSet);
        Assert.Equal(3, await early.WithinDeadline());
        Assert.Same(early, _completion.Task);
    }

    [Fact]
    public async Task A_task_that_is_asked_for_while_the_result_is_set_completes()
    {
        for (var race = 0; race < Races; race++)
        {
            _completion = default;
            using var start = new Barrier(2);
            var setting = Task.Run(() =>
            {
                start.SignalAndWait();
                _completion.TrySet(4);
            });

            start.SignalAndWait();
            var asked = _completion.Task;

            Assert.Equal(4, await asked.WithinDeadline());
            await setting;
        }
    }
}
