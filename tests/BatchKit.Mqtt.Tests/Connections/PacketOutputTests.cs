using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class PacketOutputTests
{
    private readonly ScriptedStream _stream = new();
    private readonly ScriptedSource _source = new();

    [Fact]
    public async Task Appended_packets_go_ahead_of_the_sources_in_one_write()
    {
        using var output = new PacketOutput(_stream, _source);
        _source.Add([3, 4]);

        output.Append([1]);
        output.Append([2]);
        output.Flush();

        Assert.Equal([1, 2, 3, 4], await _stream.NextAsync());
        Assert.Equal((0, 1), (_stream.WriteCount, _source.Completed));
    }

    [Fact]
    public void A_flush_with_nothing_writes_nothing()
    {
        using var output = new PacketOutput(_stream, _source);

        output.Flush();

        Assert.Equal((0, 0), (_stream.WriteCount, _source.Completed));
    }

    [Fact]
    public async Task What_is_flushed_during_a_write_goes_with_the_next_one()
    {
        using var output = new PacketOutput(_stream, _source);
        _stream.Hold();
        output.Append([1]);
        output.Flush();

        output.Append([2]);
        output.Flush();
        _source.Add([3]);
        output.Flush();
        _stream.LetGo();

        Assert.Equal([1], await _stream.NextAsync());
        Assert.Equal([2, 3], await _stream.NextAsync());
    }

    [Fact]
    public async Task A_flush_from_inside_a_fill_is_not_lost_and_does_not_nest()
    {
        using var output = new PacketOutput(_stream, _source);
        var depth = 0;
        _source.OnFill = () =>
        {
            Assert.Equal(1, ++depth);
            if (_source.Filled == 1)
                output.Append([2]);
            output.Flush();
            _source.OnFill = static () => { };
            depth--;
        };
        output.Append([1]);

        output.Flush();

        Assert.Equal([1], await _stream.NextAsync());
        Assert.Equal([2], await _stream.NextAsync());
    }

    [Fact]
    public async Task Flushes_from_many_threads_write_everything_once_and_one_at_a_time()
    {
        const int Threads = 8;
        const int Packets = 2000;
        using var output = new PacketOutput(_stream, _source);

        await Task.WhenAll(Enumerable.Range(0, Threads).Select(thread => Task.Run(() =>
        {
            for (var number = 0; number < Packets; number++)
            {
                if (number % 2 == 0)
                    output.Append([(byte)thread]);
                else
                    _source.Add([(byte)thread]);
                output.Flush();
            }
        })));

        // The flush that has it in hand may have left the rest to the thread pool, and a source is not asked any more behind a close.
        var counts = new int[Threads];
        while (counts.Sum() < Threads * Packets)
        {
            foreach (var thread in await _stream.NextAsync())
                counts[thread]++;
        }

        await output.CloseAsync().WithinDeadline();

        Assert.All(counts, count => Assert.Equal(Packets, count));
        Assert.Equal(0, _stream.WriteCount);
        Assert.False(_stream.HadTwoWritesAtOnce);
        Assert.False(_source.WasCalledTwiceAtOnce);
    }

    [Fact]
    public async Task A_caller_gets_its_thread_back_from_a_source_that_never_runs_dry()
    {
        using var output = new PacketOutput(_stream, _source);
        var enough = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        _source.OnFill = () =>
        {
            if (!enough.Task.IsCompleted)
                _source.Add([1]);
        };

        var flushing = Task.Run(output.Flush);
        await flushing.WithinDeadline();
        var isStillWriting = !enough.Task.IsCompleted;
        enough.SetResult();
        await output.CloseAsync().WithinDeadline();

        Assert.True(isStillWriting);
    }

    [Fact]
    public async Task A_packet_larger_than_the_buffer_goes_out_whole()
    {
        using var output = new PacketOutput(_stream, _source);
        var large = new byte[1_000_000];
        large.AsSpan().Fill(7);
        _source.Add([1]);
        _source.Add(large);
        _source.Add([2]);

        output.Flush();

        Assert.Equal([1], await _stream.NextAsync());
        byte[] rest = [.. await _stream.NextAsync(), .. _stream.WriteCount > 0 ? await _stream.NextAsync() : []];
        Assert.Equal([.. large, 2], rest);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_failed_write_ends_writing_and_says_why(bool isLate)
    {
        using var output = new PacketOutput(_stream, _source);
        _source.Add([1]);
        if (isLate)
            _stream.Hold();
        else
            _stream.Failure = new IOException("cut");

        output.Flush();
        if (isLate)
        {
            _stream.Failure = new IOException("cut");
            _stream.LetGo();
        }

        var failure = await Assert.ThrowsAsync<IOException>(() => output.Failed.WithinDeadline());
        output.Append([2]);
        output.Flush();
        await output.CloseAsync().WithinDeadline();

        Assert.Equal("cut", failure.Message);
        Assert.Equal((1, 0), (_stream.WriteCount, _source.Completed));
    }

    [Fact]
    public async Task A_source_that_throws_ends_writing()
    {
        using var output = new PacketOutput(_stream, _source);
        _source.OnFill = static () => throw new InvalidOperationException("defect");

        output.Flush();

        await Assert.ThrowsAsync<InvalidOperationException>(() => output.Failed.WithinDeadline());
        await output.CloseAsync().WithinDeadline();
    }

    [Fact]
    public async Task Closing_waits_for_the_write_under_way_then_writes_the_last_packet_and_asks_the_source_no_more()
    {
        using var output = new PacketOutput(_stream, _source);
        _stream.Hold();
        output.Append([1]);
        output.Flush();
        output.Append([2]);
        _source.Add([9]);

        var closing = output.CloseAsync([3]);
        var fillsBefore = _source.Filled;
        var wasOpen = !closing.IsCompleted;
        output.Append([4]);
        output.Flush();
        _stream.LetGo();
        await closing.WithinDeadline();

        Assert.True(wasOpen);
        Assert.Equal([1], await _stream.NextAsync());
        Assert.Equal([2, 3], await _stream.NextAsync());
        Assert.Equal((0, fillsBefore), (_stream.WriteCount, _source.Filled));
    }

    [Fact]
    public async Task Acknowledgements_for_a_broker_that_does_not_read_are_bounded()
    {
        using var output = new PacketOutput(_stream, _source);
        _stream.Hold();
        output.Append([1]);
        output.Flush();

        for (var count = 0; count < 200 && !output.Failed.IsCompleted; count++)
            output.Append(new byte[4096]);

        var failure = await Assert.ThrowsAsync<IOException>(() => output.Failed.WithinDeadline());
        Assert.Contains("does not read", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Writing_allocates_nothing()
    {
        using var stream = new ScriptedStream { KeepsWrites = false };
        using var output = new PacketOutput(stream, new SteadySource());
        byte[] packet = [0x40, 2, 0, 1];

        Assert.Equal(0, Allocations.Least(Write));

        void Write()
        {
            for (var time = 0; time < 10_000; time++)
            {
                output.Append(packet);
                output.Flush();
            }
        }
    }
}

/// <summary>Has one packet for every other fill.</summary>
internal sealed class SteadySource : IPacketSource
{
    private bool _hasOne;

    public void Fill(PacketBuffer buffer)
    {
        _hasOne = !_hasOne;
        if (_hasOne && buffer.TryReserve(100, out _))
            buffer.Advance(100);
    }

    public void CompleteWrite()
    {
        // Nothing waits for it.
    }
}
