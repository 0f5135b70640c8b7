using BatchKit.Broadcast.Receiving;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Receiving;

public sealed class InputPaceTests
{
    private static readonly Task Open = new TaskCompletionSource().Task;

    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public void A_burst_passes_at_once_and_later_records_at_the_rate()
    {
        var pace = Pace(new InputLimits { RecordsPerSecond = 10, RecordBurst = 25 });

        var burst = (pace.TakeRecords(20), pace.TakeRecords(20), pace.TakeRecords(20));
        _clock.Advance(TimeSpan.FromSeconds(2));
        var later = pace.TakeRecords(1000);
        _clock.Advance(TimeSpan.FromHours(1));
        var afterPause = pace.TakeRecords(1000);

        Assert.Equal((20, 5, 0), burst);
        Assert.Equal((20, 25), (later, afterPause));
    }

    [Fact]
    public async Task A_client_that_sent_too_many_bytes_is_read_when_it_has_earned_some()
    {
        var pace = Pace(new InputLimits { BytesPerSecond = 1000, ByteBurst = 5000 });
        var isFree = pace.WhenMayReadAsync(Open).IsCompleted;
        pace.NoteBytes(6000);

        var reading = pace.WhenMayReadAsync(Open).AsTask();
        _clock.Advance(TimeSpan.FromSeconds(1));
        var isTooEarly = reading.IsCompleted;
        _clock.Advance(TimeSpan.FromSeconds(0.2));
        await reading.WithinDeadline();

        Assert.Equal((true, false), (isFree, isTooEarly));
    }

    [Fact]
    public async Task A_client_that_is_closed_is_read_at_once()
    {
        var pace = Pace(new InputLimits());
        var closing = new TaskCompletionSource();
        pace.NoteBytes(1_000_000);

        var reading = pace.WhenMayReadAsync(closing.Task).AsTask();
        closing.SetResult();

        await reading.WithinDeadline();
        Assert.Equal(0, _clock.ArmedTimers);
    }

    private InputPace Pace(InputLimits limits) => new(limits, _clock);
}
