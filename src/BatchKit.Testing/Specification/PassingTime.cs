using System.Runtime.ExceptionServices;

namespace BatchKit.Testing.Specification;

/// <summary>Advances a manual clock as real time passes, some milliseconds at a time. Disposing it throws what a timer's callback threw.</summary>
internal sealed class PassingTime : IAsyncDisposable
{
    private static readonly TimeSpan Step = TimeSpan.FromMilliseconds(5);

    private readonly ManualTimeProvider _clock;
    private readonly ITimer _timer;
    private Exception? _failure;
    private int _isPassing;

    public PassingTime(ManualTimeProvider clock)
    {
        _clock = clock;
        _timer = TimeProvider.System.CreateTimer(static state => ((PassingTime)state!).Pass(), this, Step, Step);
    }

    public async ValueTask DisposeAsync()
    {
        await _timer.DisposeAsync().ConfigureAwait(false);
        if (_failure is not null)
            ExceptionDispatchInfo.Throw(_failure);
    }

    // Without this, a step that takes longer than its time would overlap with the next one.
    private void Pass()
    {
        if (Interlocked.Exchange(ref _isPassing, 1) != 0)
            return;
        try
        {
            _clock.Advance(Step);
        }
        catch (Exception failure)
        {
            _failure ??= failure;
        }
        finally
        {
            Volatile.Write(ref _isPassing, 0);
        }
    }
}
