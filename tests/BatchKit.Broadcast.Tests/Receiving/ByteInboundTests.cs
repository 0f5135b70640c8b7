using System.Diagnostics;
using System.Reflection;
using BatchKit.Broadcast.Receiving;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Receiving;

public sealed class ByteInboundTests
{
    [Fact]
    public void A_client_that_is_waited_for_holds_no_buffer()
    {
        var run = new InboundRun(new BroadcastOptions(), LineCutter.Shared);
        var held = new List<int>();
        run.Source.OnWait = () => held.Add(run.Inbound!.HeldBytes);
        run.Source.Start(Some.Bytes("one\ntwo\n"), 4);

        Assert.Equal(InboundEnd.Finished, run.Run());

        Assert.Equal([0, 0, 0], held);
    }

    [Fact]
    public void A_client_that_sent_a_part_of_a_record_holds_little_more_than_that()
    {
        var run = new InboundRun(new BroadcastOptions(), LineCutter.Shared);
        var most = 0;
        run.Source.OnWait = () => most = Math.Max(most, run.Inbound!.HeldBytes);
        run.Source.Start(Some.Bytes("one\nand a part of two\n"), 5, 6, 7, 8, 12);

        Assert.Equal(InboundEnd.Finished, run.Run());

        Assert.Equal(2, run.Collector.Count);
        Assert.InRange(most, 1, 64);
    }

    [Theory]
    [InlineData(16)]
    [InlineData(100_000)]
    [InlineData(3_000_000)]
    public void A_record_of_the_greatest_length_fits_and_the_buffer_grows_no_further(int maxRecordBytes)
    {
        const int framing = 256;
        var run = new InboundRun(new BroadcastOptions { MaxRecordBytes = maxRecordBytes }, LineCutter.Shared);
        var record = new byte[maxRecordBytes];
        var most = 0;
        run.Source.OnWait = () => most = Math.Max(most, run.Inbound!.HeldBytes);
        run.Source.Start((byte[])[.. record, .. "\r\n"u8, .. record, .. "\n"u8], maxRecordBytes - 1, maxRecordBytes, maxRecordBytes + 1);

        Assert.Equal(InboundEnd.Finished, run.Run());

        Assert.Equal(2, run.Collector.Count);

        // The pool gives powers of two.
        Assert.InRange(most, 0, (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)Math.Max(64 * 1024, maxRecordBytes + framing + 1)));
    }

    [Fact]
    public void A_cutter_that_finds_no_end_ends_its_client_at_the_limit()
    {
        var run = new InboundRun(new BroadcastOptions { MaxRecordBytes = 1000 }, new StubbornCutter());
        run.Source.Start(new byte[1000 + 256], 500);
        Assert.Equal(InboundEnd.Finished, run.Run());

        run.Source.Start(new byte[1000 + 257], 500);
        Assert.Equal(InboundEnd.ProtocolError, run.Run());
    }

    [Fact]
    public void The_records_of_one_read_are_handed_over_together_up_to_a_thousand()
    {
        var run = new InboundRun(new BroadcastOptions(), LineCutter.Shared);
        run.Source.Start(Some.Bytes(new string('\n', 2100)), 100);

        Assert.Equal(InboundEnd.Finished, run.Run());

        Assert.Equal((2100, 3), (run.Collector.Count, run.Collector.Calls));
    }

    [Fact]
    public async Task A_handler_that_throws_closes_the_connection_and_reading_goes_on_to_the_end()
    {
        var run = new InboundRun(new BroadcastOptions(), LineCutter.Shared);
        run.Source.Start(Some.Bytes("one\n"));

        Assert.Equal(InboundEnd.Finished, run.Run(new ThrowingHandler()));

        Assert.Equal(DisconnectReason.HandlerFailed, await run.Closing.WithinDeadline());
        Assert.Equal(0, run.Inbound!.HeldBytes);
    }

    [Fact]
    public void Reading_allocates_nothing_once_it_runs()
    {
        var isUnoptimized = typeof(ByteInbound).Assembly.GetCustomAttribute<DebuggableAttribute>() is { IsJITOptimizerDisabled: true };
        Assert.SkipWhen(isUnoptimized, "The debug build makes an object of each async call; run with -c Release.");
        var source = new SteppedSource(Some.Bytes("a line.\nanother line.\na part"));
        var reading = new InboundRun(new BroadcastOptions(), LineCutter.Shared).Start(source, new DeafHandler());

        Assert.Equal(0, Allocations.Least(() =>
        {
            for (var step = 0; step < 1000; step++)
                source.Step();
        }));
        Assert.False(reading.IsCompleted);
    }

    [Fact]
    public async Task A_client_that_always_has_more_leaves_the_others_their_turn()
    {
        using var isReturned = new ManualResetEventSlim();
        var run = new InboundRun(new BroadcastOptions(), LineCutter.Shared);
        var (waits, wasReturned) = (0, false);
        run.Source.OnWait = () => wasReturned |= ++waits == 50 && isReturned.Wait(Deadline.Time);
        run.Source.Start(Some.Bytes(new string('\n', 100)), [.. Enumerable.Range(1, 100)]);

        var reading = run.Start(run.Source, run.Collector);
        isReturned.Set();

        Assert.Equal(InboundEnd.Finished, await reading.WithinDeadline());
        Assert.True(wasReturned);
        Assert.Equal(100, run.Collector.Count);
    }
}
