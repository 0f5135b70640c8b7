using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

[Collection(nameof(MeasuresMemory))]
public sealed class HandleLifetimeTests
{
    private static readonly byte[] Payload = Some.RandomBytes(20);

    private readonly ManualTimeProvider _clock = new();
    private readonly CountingTransport _transport = new();

    [Fact]
    [Trait("Lane", "night: many handles or messages")]
    public async Task A_million_handles_used_once_leave_no_buffers_and_no_memory_behind()
    {
        await using var buffer = new OutputBuffer(_transport, timeProvider: _clock);
        Use(buffer, from: 1, count: 200_000);
        PassIdleTime();
        var before = GC.GetTotalMemory(forceFullCollection: true);

        Use(buffer, from: 1_000_001, count: 1_000_000);
        var live = buffer.GetStatistics().LiveHandles;
        PassIdleTime();

        var after = GC.GetTotalMemory(forceFullCollection: true);
        var statistics = buffer.GetStatistics();
        Assert.InRange(live, 1, 65_536 + (65_536 / 4));
        Assert.Equal((0, 0), (statistics.LiveHandles, statistics.PendingMessages));
        Assert.Equal((1_200_000, 1_200_000), (statistics.AcceptedMessages, statistics.AcknowledgedMessages));
        Assert.True(after - before < 5_000_000, $"The heap grew by {after - before} bytes.");
    }

    [Fact]
    public async Task A_handle_is_kept_while_its_scope_is_open_and_used_again_after_it_was_given_up()
    {
        await using var buffer = new OutputBuffer(_transport, timeProvider: _clock);
        var handle = Some.Connection();
        var scope = buffer.BeginBufferingScope(handle);
        _clock.Advance(TimeSpan.FromSeconds(59));
        var whileOpen = buffer.GetStatistics().LiveHandles;

        scope.Dispose();
        PassIdleTime();
        var whenIdle = buffer.GetStatistics().LiveHandles;
        scope.Dispose();
        buffer.Write(handle, Payload);

        Assert.Equal((1, 0), (whileOpen, whenIdle));
        Assert.Equal(1, _transport.Messages);
    }

    // The first ones make the table as large as it will be, which is not growth by use.
    private static void Use(OutputBuffer buffer, int from, int count)
    {
        for (var number = from; number < from + count; number++)
        {
            var handle = OutputHandle.Connection(node: 1, number);
            if (number % 2 == 0)
            {
                buffer.Write(handle, Payload);
                continue;
            }

            using (buffer.BeginBufferingScope(handle))
                buffer.Write(handle, Payload);
        }
    }

    private void PassIdleTime() => _clock.Advance(TimeSpan.FromMinutes(3));
}
