using System.Runtime.ExceptionServices;

namespace BatchKit.Testing.Specification;

/// <summary>Advances a manual clock by the real time that passes. Disposing it throws what a timer's callback threw.</summary>
internal sealed class PassingTime : IAsyncDisposable
{
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(5);

    private readonly ManualTimeProvider _clock;
    private readonly ITimer _timer;
    private Exception? _failure;
    private int _isPassing;
    private long _passedAt = TimeProvider.System.GetTimestamp();

    public PassingTime(ManualTimeProvider clock)
    {
        _clock = clock;
        _timer = TimeProvider.System.CreateTimer(static state => ((PassingTime)state!).Pass(), this, Pause, Pause);
    }

    public async ValueTask DisposeAsync()
    {
        await _timer.DisposeAsync().ConfigureAwait(false);
        if (_failure is not null)
            ExceptionDispatchInfo.Throw(_failure);
    }

    // On a busy machine calls come late, and some not at all: with a step of fixed length a poll that waits by this clock could outlast a test's own time limits.
    private void Pass()
    {
        // Without this, a call that takes longer than a pause would overlap with the next one.
        if (Interlocked.Exchange(ref _isPassing, 1) != 0)
            return;
        try
        {
            var before = _passedAt;
            _passedAt = TimeProvider.System.GetTimestamp();
            _clock.Advance(TimeProvider.System.GetElapsedTime(before, _passedAt));
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
