using System.Collections.Immutable;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet.Tests;

public sealed class MqttClientTransportTests : IDisposable
{
    private readonly ScriptedClient _client = new();
    private readonly ProducerId _producer = Some.Producer();

    public void Dispose() => _client.Dispose();

    [Fact]
    public async Task No_more_publishes_are_under_way_than_the_window_and_each_that_ends_lets_another_start()
    {
        using var transport = Make(window: 4);
        var sending = SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, Some.Lines(10)));
        var atFirst = _client.Publishes.Count;

        _client.Publishes[0].Acknowledge();
        await WaitForPublishesAsync(5);

        Assert.Equal((4, 4, 5), (atFirst, transport.InFlightMessages, _client.Publishes.Count));
        Assert.False(sending.IsCompleted);
        await AcknowledgeAllAsync(sending);
        Assert.Equal(Some.Lines(10), _client.Publishes.Select(publish => publish.SentText));
        Assert.Equal(0, transport.InFlightMessages);
    }

    [Fact]
    public async Task A_receive_maximum_that_the_application_knows_limits_the_window()
    {
        using var transport = new MqttClientTransport(_client, new MqttClientTransportOptions { ReceiveMaximum = 3 });

        var sending = SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, Some.Lines(10)));

        Assert.Equal((3, 3), (transport.Window, _client.Publishes.Count));
        await AcknowledgeAllAsync(sending);
    }

    [Fact]
    public async Task A_window_of_publishes_that_the_broker_does_not_acknowledge_is_named_when_its_time_is_over()
    {
        using var transport = Make(window: 2);
        using var cancellation = new CancellationTokenSource();
        var sending = transport.SendAsync(new[] { Some.Batch(Some.Group(), _producer, 1, Some.Lines(3)) }, cancellation.Token).AsTask();
        var publishing = transport.PublishManyAsync(new[] { Messages.One("a", "x") }, cancellation.Token).AsTask();

        await cancellation.CancelAsync();

        foreach (var call in (Task[])[sending, publishing])
            Assert.Contains("acknowledged none of 2 publishes", (await Assert.ThrowsAsync<OperationCanceledException>(() => call.WithinDeadline())).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_client_that_is_not_connected_fails_the_send_at_once_and_as_a_whole()
    {
        using var transport = Make();
        _client.IsConnected = false;

        await Assert.ThrowsAsync<IOException>(() => SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "x")));

        Assert.Empty(_client.Publishes);
    }

    [Fact]
    public async Task A_connection_lost_in_the_middle_acknowledges_what_was_and_starts_nothing_more()
    {
        using var transport = Make(window: 4);
        var sending = SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "one"), Some.Batch(Some.Group(), _producer, 2, "two", "three"), Some.Batch(Some.Group(), _producer, 3, Some.Lines(5)));

        // The losses first: an acknowledgement before them may start another publish at any time.
        foreach (var lost in _client.Publishes.Skip(2))
            lost.Fail(new MqttClientDisconnectedException(null));
        _client.Publishes[0].Acknowledge();
        _client.Publishes[1].Acknowledge();
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending);

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged];
        Assert.Equal(expected, exception.Outcomes);
        Assert.Equal(4, _client.Publishes.Count);
        Assert.Equal(0, transport.InFlightMessages);
    }

    [Fact]
    public async Task Nothing_is_started_on_a_new_connection_that_would_overtake_what_the_old_one_lost()
    {
        using var transport = Make(window: 2);
        var sending = SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, Some.Lines(6)));

        await _client.BeginConnectingAsync();
        foreach (var publish in _client.Publishes)
            publish.Acknowledge();
        await Assert.ThrowsAsync<IOException>(() => sending);

        Assert.Equal(2, _client.Publishes.Count);
    }

    [Fact]
    public async Task A_cancelled_send_ends_and_its_publishes_keep_their_bytes_their_properties_and_their_places()
    {
        using var transport = Make(window: 8);
        using var cancellation = new CancellationTokenSource();
        MessageBatch[] abandoned = [MessageBatch.Create(Some.Group(), _producer, 1, Some.Message("first", Properties("a")), Some.Message("second", Properties("b")))];
        var sending = transport.SendAsync(abandoned, cancellation.Token).AsTask();

        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        // Publishes that take whatever the pools have.
        _client.Answer = _ => Task.FromResult(ScriptedPublish.Result(MqttClientPublishReasonCode.Success));
        for (var number = 2; number <= 100; number++)
            await SendAsync(transport, MessageBatch.Create(Some.Group(), _producer, number, Some.Message("other", Properties("other")), Some.Message("bytes!")));

        Assert.Equal(2, transport.InFlightMessages);
        Assert.Equal(["first", "second"], _client.Publishes.Take(2).Select(publish => publish.Text));
        Assert.Equal(["a = 1", "b = 1"], _client.Publishes.Take(2).SelectMany(publish => publish.Properties));
        _client.Publishes[0].Acknowledge();
        _client.Publishes[1].Acknowledge();
        Assert.Equal(0, transport.InFlightMessages);
    }

    [Fact]
    public async Task What_was_acknowledged_before_a_cancellation_counts()
    {
        using var transport = Make();
        using var cancellation = new CancellationTokenSource();
        MessageBatch[] batches = [Some.Batch(Some.Group(), _producer, 1, "one"), Some.Batch(Some.Group(), _producer, 2, "two")];
        var sending = transport.SendAsync(batches, cancellation.Token).AsTask();

        _client.Publishes[0].Acknowledge();
        await cancellation.CancelAsync();
        var exception = await Assert.ThrowsAsync<BatchSendException>(() => sending.WithinDeadline());

        ImmutableArray<BatchOutcome> expected = [BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged];
        Assert.Equal(expected, exception.Outcomes);
        _client.Publishes[1].Acknowledge();
    }

    [Fact]
    public async Task A_send_cancelled_while_it_waits_for_room_frees_the_window_for_the_next()
    {
        using var transport = Make(window: 1);
        using var cancellation = new CancellationTokenSource();
        MessageBatch[] abandoned = [Some.Batch(Some.Group(), _producer, 1, "one", "two")];
        var sending = transport.SendAsync(abandoned, cancellation.Token).AsTask();

        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        var next = SendAsync(transport, Some.Batch(Some.Group(), _producer, 2, "three"));
        await AcknowledgeAllAsync(next);

        Assert.Equal(["one", "three"], _client.Publishes.Select(publish => publish.SentText));
    }

    [Theory]
    [InlineData(MqttClientPublishReasonCode.NotAuthorized, BatchOutcome.Refused)]
    [InlineData(MqttClientPublishReasonCode.TopicNameInvalid, BatchOutcome.Refused)]
    [InlineData(MqttClientPublishReasonCode.PayloadFormatInvalid, BatchOutcome.Refused)]
    [InlineData(MqttClientPublishReasonCode.UnspecifiedError, BatchOutcome.Unacknowledged)]
    [InlineData(MqttClientPublishReasonCode.ImplementationSpecificError, BatchOutcome.Unacknowledged)]
    [InlineData(MqttClientPublishReasonCode.PacketIdentifierInUse, BatchOutcome.Unacknowledged)]
    [InlineData(MqttClientPublishReasonCode.QuotaExceeded, BatchOutcome.Unacknowledged)]
    [InlineData(MqttClientPublishReasonCode.NoMatchingSubscribers, BatchOutcome.Acknowledged)]
    public async Task A_reason_code_of_the_broker_decides_for_its_batch_alone(MqttClientPublishReasonCode code, BatchOutcome expected)
    {
        using var transport = Make();
        var sending = SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "before"), Some.Batch(Some.Group(), _producer, 2, "judged"), Some.Batch(Some.Group(), _producer, 3, "after"));

        _client.Publishes[0].Acknowledge();
        _client.Publishes[1].Acknowledge(code);
        _client.Publishes[2].Acknowledge();
        var exception = await Record.ExceptionAsync(() => sending.WithinDeadline()) as BatchSendException;

        ImmutableArray<BatchOutcome> outcomes = [BatchOutcome.Acknowledged, expected, BatchOutcome.Acknowledged];
        Assert.Equal(expected == BatchOutcome.Acknowledged ? null : outcomes, exception?.Outcomes);
    }

    [Fact]
    public async Task A_refused_message_holds_back_none_of_its_batch_however_small_the_window()
    {
        using var transport = Make(window: 2);
        var messages = Enumerable.Range(0, 5).Select(number => Some.Message($"{number}", number == 0 ? new MessageHeader { ContentType = "a\0b" } : null)).ToArray();

        var sending = SendAsync(transport, MessageBatch.Create(Some.Group(), _producer, 1, messages));
        await Assert.ThrowsAsync<BatchSendException>(() => AcknowledgeAllAsync(sending));

        Assert.Equal(4, _client.Publishes.Count);
    }

    [Fact]
    public async Task A_disposed_transport_throws()
    {
        var transport = Make();

        transport.Dispose();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => SendAsync(transport, Some.Batch(Some.Group(), _producer, 1, "never")));
        Assert.Empty(_client.Publishes);
    }

    private static MessageHeader Properties(string name) => new() { Properties = [new(name, "1")] };

    private static Task SendAsync(MqttClientTransport transport, params MessageBatch[] batches) => transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    private MqttClientTransport Make(int window = 1000) => new(_client, new MqttClientTransportOptions { PublishWindow = window });

    private async Task AcknowledgeAllAsync(Task sending)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        for (; !sending.IsCompleted; await Task.Delay(1, deadline.Token))
        {
            foreach (var publish in _client.Publishes.Where(publish => !publish.Task.IsCompleted))
                publish.Acknowledge();
        }

        await sending;
    }

    private Task WaitForPublishesAsync(int count) => Until.TrueAsync(() => _client.Publishes.Count >= count);
}
