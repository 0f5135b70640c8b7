using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Transports;

public sealed class FrameTrustTests
{
    private const int Rejected = 206;

    private static readonly byte[] FirstKey = Some.RandomBytes(FrameSigner.MinKeyBytes, seed: 1);
    private static readonly byte[] SecondKey = Some.RandomBytes(FrameSigner.MinKeyBytes, seed: 2);

    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _collected = new();
    private readonly LogCollector _log = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly ProducerId _producer = Some.Producer(node: 3);

    [Theory]
    [InlineData(long.MaxValue, 1)]
    [InlineData((1L << 32) + 2, 1)]
    [InlineData((1L << 32) + 1, 0)]
    [InlineData(1_000_000, 0)]
    [InlineData(65_600, 0)]
    public async Task A_forged_number_makes_no_genuine_message_count_as_seen(long forged, int rejected)
    {
        var receiver = Receiver();
        await ReceiveAsync(receiver, Batch(1));

        await ReceiveAsync(receiver, Batch(forged));
        for (var number = 2; number <= 1001; number++)
            await ReceiveAsync(receiver, Batch(number));

        Assert.Equal(Numbers(2, 1001), _collected.Texts.Where(text => text != $"{forged}").Skip(1));
        Assert.Equal((0L, rejected), (receiver.GetStatistics().DuplicateBatches, (int)receiver.GetStatistics().RejectedFrames));
    }

    [Fact]
    public async Task A_forged_number_that_comes_before_the_genuine_ones_makes_none_of_them_count_as_seen()
    {
        var receiver = Receiver();
        await ReceiveAsync(receiver, Batch(long.MaxValue));

        for (var number = 1; number <= 1000; number++)
            await ReceiveAsync(receiver, Batch(number));

        Assert.Equal(Numbers(1, 1000), _collected.Texts.Skip(1));
        Assert.Equal(0, receiver.GetStatistics().DuplicateBatches);
    }

    [Fact]
    public async Task A_jump_within_a_frame_is_rejected_with_the_whole_frame()
    {
        var receiver = Receiver();

        await ReceiveAsync(receiver, Batch(1), Batch(long.MaxValue));
        await ReceiveAsync(receiver, Batch(1), Batch(2));

        Assert.Equal(["1", "2"], _collected.Texts);
        Assert.Equal(1, receiver.GetStatistics().RejectedFrames);
    }

    [Fact]
    public async Task What_was_received_on_both_sides_of_a_large_gap_is_dropped_when_it_comes_again()
    {
        var receiver = Receiver();
        MessageBatch[][] frames = [[Batch(1), Batch(2)], [Batch(1_000_000), Batch(1_000_007)], [Batch(1_000_008)]];

        foreach (var frame in frames.Concat(frames))
            await ReceiveAsync(receiver, frame);

        Assert.Equal(["1", "2", "1000000", "1000007", "1000008"], _collected.Texts);
        Assert.Equal(5, receiver.GetStatistics().DuplicateBatches);
    }

    [Fact]
    public async Task A_producer_whose_numbers_do_jump_is_received_again_after_its_expiry()
    {
        var receiver = Receiver(new BatchReceiverOptions { ProducerExpiry = TimeSpan.FromMinutes(1) });
        await ReceiveAsync(receiver, Batch(1));

        for (var number = 1L << 40; number < (1L << 40) + 5; number++)
        {
            _clock.Advance(TimeSpan.FromSeconds(20));
            await ReceiveAsync(receiver, Batch(number));
        }

        Assert.Equal(["1", $"{(1L << 40) + 3}", $"{(1L << 40) + 4}"], _collected.Texts);
    }

    [Fact]
    public async Task Rejected_frames_are_logged_once_a_period_with_their_count()
    {
        var receiver = Receiver(new BatchReceiverOptions { Signer = new FrameSigner(FirstKey) });

        for (var frame = 0; frame < 10_000; frame++)
        {
            await ReceiveAsync(receiver, Batch(1));
            _clock.Advance(TimeSpan.FromMilliseconds(2));
        }

        Assert.Equal(10_000, receiver.GetStatistics().RejectedFrames);
        Assert.Equal((2, true), (_log.Count(Rejected), _log.Text.Contains("5000 received frames were rejected", StringComparison.Ordinal)));
        Assert.Empty(_collected.Texts);
    }

    [Fact]
    public async Task A_signed_frame_is_received_with_its_key_only()
    {
        var signed = Signed(FrameDestination.All, Batch(1));
        var (right, wrong, none) = (Receiver(FirstKey), Receiver(SecondKey), Receiver());

        await right.ReceiveAsync(signed, CancellationToken.None);
        await wrong.ReceiveAsync(signed, CancellationToken.None);
        var refusal = await Assert.ThrowsAsync<FrameFormatException>(() => none.ReceiveAsync(signed, CancellationToken.None).AsTask());

        Assert.Equal(["1"], _collected.Texts);
        Assert.Equal((0L, 1L), (right.GetStatistics().RejectedFrames, wrong.GetStatistics().RejectedFrames));
        Assert.Contains("signed", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_signed_frame_that_was_changed_anywhere_is_rejected()
    {
        var signed = Signed(FrameDestination.All, Batch(1));
        var receiver = Receiver(FirstKey);

        for (var place = 0; place < signed.Length; place++)
        {
            var changed = signed.ToArray();
            changed[place] ^= 1;
            await receiver.ReceiveAsync(changed, CancellationToken.None);
            await receiver.ReceiveAsync(signed.AsMemory(0, place), CancellationToken.None);
        }

        Assert.Empty(_collected.Texts);
        Assert.Equal(2 * signed.Length, receiver.GetStatistics().RejectedFrames);
    }

    [Fact]
    public async Task A_signed_frame_is_accepted_at_its_own_node_only_and_one_for_all_at_every_node()
    {
        var (own, other) = (Receiver(FirstKey), Receiver(FirstKey));
        own.ReadFor(new NodeNumber(_handle.Node));
        other.ReadFor(new NodeNumber(_handle.Node + 1));
        var frames = (Single: Signed(FrameDestination.Of(_handle, destinationNode: null), Batch(1)), All: Signed(FrameDestination.All, Batch(2)));

        foreach (var receiver in new[] { own, other })
        {
            await receiver.ReceiveAsync(frames.Single, CancellationToken.None);
            await receiver.ReceiveAsync(frames.All, CancellationToken.None);
        }

        Assert.Equal(["1", "2", "2"], _collected.Texts);
        Assert.Equal((0L, 1L), (own.GetStatistics().RejectedFrames, other.GetStatistics().RejectedFrames));
        Assert.Contains("another node", _log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0, true)]
    [InlineData(60, true)]
    [InlineData(-60, true)]
    [InlineData(61, false)]
    [InlineData(-61, false)]
    [InlineData(1_000_000, false)]
    public async Task A_receiver_that_starts_again_accepts_a_signed_frame_up_to_its_age(int minutes, bool isAccepted)
    {
        var frame = Signed(FrameDestination.All, Batch(1));
        _clock.JumpWallClock(TimeSpan.FromMinutes(minutes));
        var receiver = Receiver(new BatchReceiverOptions { Signer = Signer(FirstKey), MaxFrameAge = TimeSpan.FromHours(1) });

        await receiver.ReceiveAsync(frame, CancellationToken.None);

        Assert.Equal(isAccepted ? ["1"] : [], _collected.Texts);
        Assert.Equal(isAccepted ? 0 : 1, receiver.GetStatistics().RejectedFrames);
    }

    [Fact]
    public async Task A_signed_frame_that_somebody_repeats_is_dropped_however_long_its_sender_was_silent_and_whatever_came_between()
    {
        var receiver = Receiver(new BatchReceiverOptions { Signer = Signer(FirstKey), ProducerExpiry = TimeSpan.FromSeconds(1) });
        MessageBatch[] batches = [Batch(7), Batch(200_000), Batch(400_000)];
        var frames = Array.ConvertAll(batches, batch => Signed(FrameDestination.All, batch));
        foreach (var frame in frames)
            await receiver.ReceiveAsync(frame, CancellationToken.None);

        for (var hour = 0; hour < 30; hour++)
        {
            _clock.Advance(TimeSpan.FromHours(1));
            foreach (var frame in frames)
                await receiver.ReceiveAsync(frame, CancellationToken.None);
        }

        Assert.Equal(["7", "200000", "400000"], _collected.Texts);
    }

    [Fact]
    public async Task Keys_are_changed_without_a_rejected_frame()
    {
        (byte[][] Sender, byte[][] Receiver)[] steps =
            [([FirstKey], [FirstKey]), ([FirstKey], [FirstKey, SecondKey]), ([SecondKey, FirstKey], [FirstKey, SecondKey]), ([SecondKey], [SecondKey, FirstKey]), ([SecondKey], [SecondKey])];
        var number = 0;

        foreach (var (sender, receiver) in steps)
            await Receiver(receiver).ReceiveAsync(Signed(Signer(sender), FrameDestination.All, Batch(++number)), CancellationToken.None);

        Assert.Equal(Numbers(1, steps.Length), _collected.Texts);
    }

    [Fact]
    public async Task Frames_of_a_signing_transport_keep_within_its_limit_and_arrive()
    {
        var (keys, frames) = (Signer(FirstKey), new List<byte[]>());
        var options = new FrameTransportOptions { MaxFrameBytes = 4096, DestinationNode = 1, Signer = keys };
        using var transport = new FrameTransport(
            (frame, _) =>
            {
                frames.Add(frame.Bytes.ToArray());
                return default;
            },
            options);
        var receiver = Receiver(FirstKey);

        await transport.SendAsync(Enumerable.Range(1, 200).Select(number => Batch(number)).ToArray(), CancellationToken.None);
        foreach (var frame in frames)
            await receiver.ReceiveAsync(frame, CancellationToken.None);

        Assert.InRange(frames.Count, 2, 200);
        Assert.All(frames, frame => Assert.InRange(frame.Length, 1, options.MaxFrameBytes));
        Assert.Equal(Numbers(1, 200), _collected.Texts);
    }

    [Fact]
    public void A_key_that_is_too_short_is_refused()
    {
        var options = new OutputBufferOptions { FrameKeys = { new byte[FrameSigner.MinKeyBytes - 1] } };

        Assert.Throws<ArgumentException>(() => new FrameSigner(new byte[FrameSigner.MinKeyBytes - 1]));
        Assert.Throws<ArgumentException>(() => new FrameSigner([null!]));
        Assert.Throws<ArgumentException>(() => new FrameSigner());
        Assert.Contains("FrameKeys[0]", Assert.Single(options.Validate(new(options))).ErrorMessage, StringComparison.Ordinal);
    }

    private static IEnumerable<string> Numbers(int first, int last) => Enumerable.Range(first, last - first + 1).Select(number => $"{number}");

    private static byte[] Signed(FrameSigner signer, FrameDestination destination, params MessageBatch[] batches)
    {
        using var frame = PooledFrame.Encode(batches, signer, destination: destination);
        return frame.Bytes.ToArray();
    }

    private byte[] Signed(FrameDestination destination, MessageBatch batch) => Signed(Signer(FirstKey), destination, batch);

    private FrameSigner Signer(params byte[][] keys) => new(keys) { TimeProvider = _clock };

    private static Task ReceiveAsync(BatchReceiver receiver, params MessageBatch[] batches) =>
        receiver.ReceiveAsync(Some.Frame(batches), CancellationToken.None).AsTask();

    private BatchReceiver Receiver(params byte[][] keys) => Receiver(new BatchReceiverOptions { Signer = keys.Length == 0 ? null : Signer(keys) });

    private BatchReceiver Receiver(BatchReceiverOptions options) => new(_collected, options, _clock, new Logger<BatchReceiver>(_log));

    private MessageBatch Batch(long number) => Some.Batch(_handle, _producer, number, $"{number}");
}
