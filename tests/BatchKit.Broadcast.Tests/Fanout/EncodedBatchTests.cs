using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Fanout;

public sealed class EncodedBatchTests
{
    private static readonly SendQueueLimits Wide = new(1 << 20, 100_000, SlowConsumerPolicy.Disconnect);

    private readonly EncodedBatch _encoded = new();

    [Fact]
    public void Its_messages_lie_one_behind_the_other()
    {
        _encoded.Encode(Deliveries.ToGroup("hall", "one", "", "three"), WireFormat.Raw);

        Assert.Equal(("onethree", 3), (Text(_encoded.Whole), _encoded.Whole.Messages));
        Assert.Equal(("three", 2), (Text(_encoded.GetRun(1, 3)), _encoded.GetRun(1, 3).Messages));
        Assert.Equal(("one", 1), (Text(_encoded.GetRun(0, 1)), _encoded.GetRun(0, 1).Messages));
    }

    [Fact]
    public void A_borrowed_batch_is_the_batchs_own_bytes()
    {
        var batch = Deliveries.ToGroup("hall", "one", "two");

        _encoded.Borrow(batch);

        Assert.Null(_encoded.Whole.Owner);
        Assert.Equal("onetwo", Text(_encoded.Whole));
        Assert.Equal("two", Text(_encoded.GetRun(1, 2)));
    }

    [Fact]
    public void What_a_format_does_not_get_takes_no_bytes_and_counts_for_nothing()
    {
        var batch = Deliveries.ToGroup("hall", Some.Message("a"), Some.Message("Core.Ping", TelnetMessages.Gmcp), Deliveries.Control(ControlMessage.Close), Some.Message("b"));

        _encoded.Encode(batch, WireFormat.Raw);

        Assert.Equal(("ab", 2), (Text(_encoded.Whole), _encoded.Messages));
        Assert.Equal((0, 0), (_encoded.GetRun(1, 3).Bytes.Length, _encoded.GetRun(1, 3).Messages));
        Assert.Equal(("b", 1), (Text(_encoded.GetRun(2, 4)), _encoded.GetRun(2, 4).Messages));
    }

    [Fact]
    public void A_batch_of_which_nothing_is_left_is_no_run()
    {
        _encoded.Encode(Deliveries.ToGroup("hall", Deliveries.Control(ControlMessage.Close)), WireFormat.Raw);

        Assert.False(_encoded.IsOneRun(Wide));
    }

    [Fact]
    public void It_can_be_used_again_after_release()
    {
        _encoded.Encode(Deliveries.ToGroup("hall", Some.Lines(50)), WireFormat.WebSocketText);
        _encoded.Release();

        _encoded.Encode(Deliveries.ToGroup("hall", "one", "two"), WireFormat.Raw);

        Assert.Equal(("onetwo", 2), (Text(_encoded.Whole), _encoded.Messages));
        Assert.Equal("two", Text(_encoded.GetRun(1, 2)));
    }

    [Fact]
    public void Runs_cut_a_batch_at_message_borders_within_the_limits()
    {
        var property = Prop.ForAll(Gen.Choose(0, 300).ArrayOf().ToArbitrary(), Gen.Choose(1, 10).ToArbitrary(), CheckRuns);

        Check.One(Config.QuickThrowOnFailure.WithMaxTest(300).WithEndSize(80), property);
    }

    private static void CheckRuns(int[] sizes, int maxMessages)
    {
        var messages = sizes.Select((size, place) => new BatchMessage(Some.RandomBytes(size, place))).ToArray();
        var limits = new SendQueueLimits(500 + WebSocketClosings.MaxFrameBytes, maxMessages, SlowConsumerPolicy.Disconnect);
        var encoded = new EncodedBatch();
        if (messages.Length == 0)
            return;
        encoded.Encode(Deliveries.ToGroup("hall", messages), WireFormat.Raw);
        var joined = new List<byte>();

        for (var first = 0; first < messages.Length;)
        {
            var end = encoded.EndOfRun(first, messages.Length, limits);
            var run = encoded.GetRun(first, end);
            Assert.InRange(run.Bytes.Length, 0, 500);
            Assert.Equal(end - first, run.Messages);
            Assert.InRange(run.Messages, 1, maxMessages);
            joined.AddRange(run.Bytes);
            first = end;
        }

        Assert.Equal(messages.SelectMany(message => message.Payload.ToArray()), joined);
        encoded.Release();
    }

    private static string Text(OutputRun run) => Encoding.UTF8.GetString(run.Bytes);
}
