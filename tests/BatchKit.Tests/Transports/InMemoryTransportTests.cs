using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests.Transports;

public sealed class InMemoryTransportTests : TransportSpecification
{
    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.AcknowledgesAfterNextHop;

    [Fact]
    public void It_declares_what_its_next_hop_declares()
    {
        var inline = new InMemoryTransport(new CollectingTransport(sendsWithoutBlocking: true, maxMessageBytes: 1234));
        var blocking = new InMemoryTransport(new CollectingTransport(sendsWithoutBlocking: false));

        Assert.True(((IBatchTransport)inline).SendsWithoutBlocking);
        Assert.Equal(1234, ((IBatchTransport)inline).MaxMessageBytes);
        Assert.False(((IBatchTransport)blocking).SendsWithoutBlocking);
    }

    [Fact]
    public void A_buffer_whose_batches_the_receiver_would_not_read_is_not_created()
    {
        var transport = new InMemoryTransport(Collected, new BatchReceiverOptions { Limits = new FrameLimits { MaxFrameBytes = 4096 } });

        var refusal = Assert.Throws<OptionsValidationException>(() => new OutputBuffer(transport));

        Assert.Contains("must be at most 3072", refusal.Message, StringComparison.Ordinal);
        Assert.EndsWith("raise BatchReceiverOptions.Limits.MaxFrameBytes.", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_scope_above_the_receivers_largest_frame_arrives_in_several()
    {
        var transport = new InMemoryTransport(Collected, new BatchReceiverOptions { Limits = new FrameLimits { MaxFrameBytes = 4096 } });
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBatchBytes = 1024 });
        var handle = Connection();
        var lines = Enumerable.Range(0, 60).Select(static line => $"{line} {new string('x', 1000)}").ToArray();

        await using (buffer.BeginBufferingScope(handle))
        {
            foreach (var line in lines)
                buffer.Write(handle, line);
        }

        Assert.Equal(lines, Collected.Texts);
        Assert.Equal((60, 0), (buffer.GetStatistics().AcknowledgedMessages, transport.Receiver.GetStatistics().MalformedFrames));
    }

    [Fact]
    public async Task A_batch_that_the_receiver_can_t_read_is_refused_alone()
    {
        var transport = new InMemoryTransport(Collected, new BatchReceiverOptions { Limits = new FrameLimits { MaxMessages = 4 } });
        var (handle, producer) = (Connection(), Some.Producer());
        MessageBatch[] batches = [.. Enumerable.Range(1, 9).Select(number => Some.Batch(handle, producer, number, number == 5 ? Some.Lines(5) : [$"{number}"]))];

        var refusal = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(batches, CancellationToken.None).WithinDeadline());

        Assert.Equal(batches.Select(static batch => batch.Count > 4 ? BatchOutcome.Refused : BatchOutcome.Acknowledged), refusal.Outcomes);
        Assert.Contains(nameof(FrameLimits.MaxMessages), refusal.Message, StringComparison.Ordinal);
        Assert.Equal(["1", "2", "3", "4", "6", "7", "8", "9"], Collected.Texts);
    }

    [Fact]
    public async Task Sends_side_by_side_reach_the_next_hop_one_at_a_time()
    {
        var stalled = NextHop.Stall();
        var sends = Enumerable.Range(0, 10).Select(partition => SendAsync(Some.Batch(Connection(), Some.Producer(partition: partition), 1, "text"))).ToArray();
        await stalled.EnteredAsync();

        stalled.Release();
        await Task.WhenAll(sends);

        Assert.Equal(10, Collected.MessageCount);
        Assert.Equal(1, NextHop.MostSendsUnderWay);
    }

    [Fact]
    public async Task A_send_may_have_batches_of_several_producers()
    {
        var (first, second) = (Some.Producer(), Some.Producer());
        MessageBatch[] batches =
        [
            Some.Batch(Connection(), first, 7, "a"), Some.Batch(Connection(), first, 8, "b"), Some.Batch(Connection(), second, 1, "c"), Some.Batch(Connection(), first, 9, "d"),
        ];

        await SendAsync(batches);
        await SendAsync(batches);

        Assert.Equal(["a", "b", "c", "d"], Collected.Texts);
    }

    [Fact]
    public async Task Disposing_waits_for_the_send_under_way()
    {
        var stalled = NextHop.Stall();
        var sending = SendAsync(Some.Batch(Connection(), Some.Producer(), 1, "under way"));
        await stalled.EnteredAsync();

        var disposing = Harness.DisposeTransportAsync().AsTask();
        var disposedEarly = disposing.IsCompleted;
        stalled.Release();
        await disposing.WithinDeadline();

        Assert.False(disposedEarly);
        Assert.Equal(["under way"], Collected.Texts);
        await sending;
    }

    protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) =>
        ValueTask.FromResult<TransportHarness>(new InMemoryHarness(nextHop, Surroundings));

    /// <summary>The transport is its own receiver.</summary>
    private sealed class InMemoryHarness : TransportHarness
    {
        private readonly BatchReceiverOptions _options = new() { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        private readonly InMemoryTransport _transport;

        public InMemoryHarness(IBatchTransport nextHop, Surroundings surroundings) =>
            _transport = new InMemoryTransport(nextHop, _options, surroundings.TimeProvider, surroundings.CreateLogger<BatchReceiver>());

        public override IBatchTransport Transport => _transport;

        public override IReadOnlyList<object> Options => [_options];

        public override ValueTask DisposeTransportAsync() => _transport.DisposeAsync();

        public override ValueTask DisposeAsync() => _transport.DisposeAsync();
    }
}
