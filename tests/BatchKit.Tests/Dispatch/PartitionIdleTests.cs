using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;
using BatchKit.Testing;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Tests.Dispatch;

public sealed class PartitionIdleTests
{
    [Fact]
    public async Task A_partition_is_idle_once_the_last_batch_that_lingers_was_dropped()
    {
        var options = new OutputBufferOptions { Linger = TimeSpan.FromSeconds(1), Overflow = OverflowPolicy.DropOldest };
        var clock = new BufferClock(new ManualTimeProvider());
        var logger = new GuardedLogger(NullLogger.Instance, new ObserverFaults());
        var settings = new BufferSettings(options, "", clock, ThreadPoolDispatchScheduler.Shared, new BatchKitMetrics("", meterFactory: null, logger.Faults), logger);
        await using var holds = new HoldQueue(clock);
        await using var partition = new DispatchPartition(settings, holds, new OutputRoute("only", new CollectingTransport()), new PartitionIdentity(Epoch: 1, Number: 0), settings.Budget.Parts[0]);
        var batch = Batch(settings);
        var mustStart = partition.Enqueue(batch, batch, isUnscoped: true);

        var idle = partition.WhenIdleAsync();
        var idledEarly = idle.IsCompleted;
        var dropped = partition.TryDrop(batch, batch.Content.Version);

        Assert.Equal((false, false, true), (mustStart, idledEarly, dropped));
        await idle.WithinDeadline();
    }

    private static RoutedBatch Batch(BufferSettings settings)
    {
        var settlement = new HandleSettlement(settings, settings.Budget.Parts[0]);
        var content = settings.Batches.Rent();
        content.Open(new Lock(), Some.Connection(), settlement, routes: 1);
        var payload = new CopiedPayload("line"u8);
        Assert.Equal(4, content.Append(ref payload, header: null, prepaid: 0));
        content.Sequence = settlement.Add();
        return content.Routes[0];
    }
}
