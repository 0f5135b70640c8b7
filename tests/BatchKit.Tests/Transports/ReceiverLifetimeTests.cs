using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class ReceiverLifetimeTests
{
    [Fact]
    public async Task A_frame_that_the_next_hop_has_for_long_is_the_fault_until_it_ends()
    {
        var clock = new ManualTimeProvider();
        using var lifetime = new ReceiverLifetime(clock, GuardedLogger.Of(null));
        lifetime.Tried(fault: null);
        var hop = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

        var watching = lifetime.WatchAsync(new ValueTask(hop.Task)).AsTask();
        Assert.Null(lifetime.Fault);
        clock.Advance(TimeSpan.FromSeconds(10));
        await Until.TrueAsync(() => lifetime.Fault?.Contains("has had a frame for longer than 00:00:10", StringComparison.Ordinal) == true);
        hop.SetException(new IOException("It failed."));

        await Assert.ThrowsAsync<IOException>(() => watching.WithinDeadline());
        Assert.Null(lifetime.Fault);
    }
}
