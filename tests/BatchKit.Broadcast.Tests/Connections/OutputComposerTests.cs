using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class OutputComposerTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new(new BroadcastOptions { MaxQueuedMessages = 10 });
    private readonly FakeClient _client;
    private readonly OutputComposer _composer;
    private DeliveryTally _tally;

    public OutputComposerTests()
    {
        _client = new FakeClient(_transport);
        _composer = new OutputComposer(_transport.Limits);
    }

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public void Runs_leave_together_when_flushed_and_not_before()
    {
        Add("one", messages: 2);
        Add("two", messages: 1);
        var early = _client.Text;

        _composer.Flush(_client.Connection, ref _tally);

        Assert.Equal(("", "onetwo", 1), (early, _client.Text, _client.Wire.Writes));
        Assert.Equal(new Amount(3, 6), _tally[DeliveryOutcome.Sent]);
    }

    [Fact]
    public void Nothing_is_written_when_nothing_was_added()
    {
        _composer.Flush(_client.Connection, ref _tally);

        Assert.Equal(0, _client.Wire.Writes);
        Assert.Equal(default, _tally.Attempted);
    }

    [Fact]
    public void What_does_not_fit_sends_what_came_before_first()
    {
        Add(new string('a', 60_000), messages: 1);
        Add(new string('b', 10_000), messages: 1);
        Add(new string('c', 70_000), messages: 1);
        Add("d", messages: 1);
        _composer.Flush(_client.Connection, ref _tally);

        Assert.Equal(new string('a', 60_000) + new string('b', 10_000) + new string('c', 70_000) + "d", _client.Text);
        Assert.Equal(4, _client.Wire.Writes);
        Assert.Equal(new Amount(4, 140_001), _tally[DeliveryOutcome.Sent]);
    }

    [Fact]
    public void No_more_messages_are_put_together_than_may_wait()
    {
        Add("abc", messages: 3);
        Add("def", messages: 3);
        _composer.Flush(_client.Connection, ref _tally);

        Assert.Equal(("abcdef", 2), (_client.Text, _client.Wire.Writes));
    }

    [Fact]
    public void An_empty_message_is_counted()
    {
        Add("", messages: 1);

        _composer.Flush(_client.Connection, ref _tally);

        Assert.Equal(new Amount(1, 0), _tally[DeliveryOutcome.Sent]);
    }

    private void Add(string text, int messages) => _composer.Add(_client.Connection, new OutputRun(Encoding.UTF8.GetBytes(text), messages), ref _tally);
}
