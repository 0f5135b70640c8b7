using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Transports;

[Trait("Figures", "more in .ci/run and at night")]
public sealed class FramePropertyTests
{
    private static readonly Config Sequences = Config.QuickThrowOnFailure.WithMaxTest(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SEQUENCES") is null ? 200 : 500);

    [Fact]
    public void Whatever_is_written_is_read_back() => Check.One(Sequences, Prop.ForAll(SomeBatches.OfOneProducer.ToArbitrary(), batches =>
    {
        using var received = FrameReader.Read(Some.Frame(batches));

        Assert.Equal(batches.Length, received.Batches.Length);
        foreach (var (expected, actual) in batches.Zip(received.Batches.ToArray()))
            AssertSame(expected, actual);
    }));

    [Fact]
    [Trait("Lane", "slow: many random inputs")]
    public void No_frame_is_larger_than_measured() => Check.One(Sequences, Prop.ForAll(SomeBatches.OfOneProducer.ToArbitrary(),
        batches => Some.Frame(batches).Length <= FrameWriter.Measure(batches)));

    [Fact]
    public void A_reader_that_is_used_again_gives_the_same_as_a_new_one()
    {
        var reused = new FrameBatches(isReused: true);
        var names = new HandleNames();
        var limits = new FrameLimits();

        Check.One(Sequences, Prop.ForAll(SomeBatches.OfOneProducer.ToArbitrary(), batches =>
        {
            FrameReader.Read(Some.Frame(batches), limits, reused, names);

            Assert.Equal(batches.Length, reused.Batches.Length);
            foreach (var (expected, actual) in batches.Zip(reused.Batches.ToArray()))
                AssertSame(expected, actual);
            reused.Release();
        }));
    }

    private static void AssertSame(MessageBatch expected, MessageBatch actual)
    {
        Assert.Equal((expected.Handle, expected.Producer, expected.Number), (actual.Handle, actual.Producer, actual.Number));
        Assert.Equal(expected.HasHeaders, actual.HasHeaders);
        Assert.True(expected.MessageEnds.SequenceEqual(actual.MessageEnds));
        Assert.True(expected.Payload.Span.SequenceEqual(actual.Payload.Span));
        Assert.True(expected.LatestMessages.SequenceEqual(actual.LatestMessages));
        for (var index = 0; index < expected.Headers.Length; index++)
            AssertSame(expected.Headers[index], actual.Headers[index]);
    }

    internal static void AssertSame(MessageHeader? expected, MessageHeader? actual)
    {
        Assert.Equal(expected is null, actual is null);
        if (expected is null || actual is null)
            return;
        Assert.Equal((expected.Kind, expected.Key, expected.ContentType, expected.Type), (actual.Kind, actual.Key, actual.ContentType, actual.Type));
        Assert.Equal((expected.ReplyTo, expected.IsRetained), (actual.ReplyTo, actual.IsRetained));
        Assert.True(expected.CorrelationData.AsSpan().SequenceEqual(actual.CorrelationData.AsSpan()));
        Assert.True(expected.ExcludedConnections.AsSpan().SequenceEqual(actual.ExcludedConnections.AsSpan()));
        Assert.True(expected.Properties.AsSpan().SequenceEqual(actual.Properties.AsSpan()));
    }
}
