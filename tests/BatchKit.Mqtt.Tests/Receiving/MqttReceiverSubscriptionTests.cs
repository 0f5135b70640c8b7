using BatchKit.Mqtt.Tests.Connections;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>What a receiver makes of a broker's answers to its subscriptions.</summary>
public sealed class MqttReceiverSubscriptionTests : IDisposable
{
    private const int Receiving = 212;
    private const int SubscriptionRefused = 2441;
    private const int SubscriptionLowered = 2442;
    private const int SessionExpiryLowered = 2443;

    private readonly FakeBroker _broker = new();
    private readonly LogCollector _log = new();

    public void Dispose()
    {
        _broker.Dispose();
        _log.Dispose();
    }

    [Fact]
    public async Task It_subscribes_to_everything_in_one_packet_and_has_no_fault_once_all_is_granted()
    {
        await using var receiver = Make("a/#", "b");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();

        var subscribe = await broker.ReadAsync();
        var faultBefore = receiver.Fault;
        await broker.WriteAsync(0x90, 5, 0, 1, 0, 1, 1);
        await starting.WithinDeadline();

        Assert.Equal([0x82, 13, 0, 1, 0, 0, 3, (byte)'a', (byte)'/', (byte)'#', 1, 0, 1, (byte)'b', 1], subscribe);
        Assert.Contains("has not answered", faultBefore, StringComparison.Ordinal);
        Assert.Null(receiver.Fault);
        Assert.Equal(1, _log.Count(Receiving));
    }

    [Fact]
    public async Task A_refused_subscription_is_a_fault_that_names_it_and_the_others_go_on()
    {
        await using var receiver = Make("secret/#", "b");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();

        await broker.WriteAsync(0x90, 5, 0, 1, 0, 0x87, 1);
        await starting.WithinDeadline();
        await broker.WriteAsync(ConnectionSome.Publish(1));

        Assert.Contains("'secret/#'", receiver.Fault, StringComparison.Ordinal);
        Assert.Contains("NotAuthorized (0x87)", receiver.Fault, StringComparison.Ordinal);
        Assert.Equal((1, 0), (_log.Count(SubscriptionRefused), _log.Count(Receiving)));
        await Until.TrueAsync(() => receiver.GetStatistics().DeliveredMessages == 1);
    }

    [Fact]
    public async Task A_subscription_that_is_granted_QoS_0_is_a_warning_and_no_fault()
    {
        await using var receiver = Make("a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();

        await broker.WriteAsync(0x90, 4, 0, 1, 0, 0);
        await starting.WithinDeadline();

        Assert.Null(receiver.Fault);
        Assert.Equal(1, _log.Count(SubscriptionLowered));
    }

    [Theory]
    [InlineData(60, 1)]
    [InlineData(100, 0)]
    public async Task A_session_that_the_broker_keeps_for_a_shorter_time_is_a_warning(byte seconds, int warnings)
    {
        await using var receiver = Make(options => options.SessionExpiry = TimeSpan.FromSeconds(100), "a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x20, 8, 0, 0, 5, 17, 0, 0, 0, seconds);
        await broker.ReadAsync();

        await broker.WriteAsync(0x90, 4, 0, 1, 0, 1);
        await starting.WithinDeadline();

        Assert.Equal((1, warnings), (_log.Count(Receiving), _log.Count(SessionExpiryLowered)));
    }

    [Fact]
    public async Task A_broker_that_does_not_answer_the_subscriptions_is_connected_to_again()
    {
        // It bounds the connecting too, which must not take so long.
        await using var receiver = Make(options => options.ConnectTimeout = TimeSpan.FromSeconds(2), "a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();

        using var again = await _broker.WelcomeAsync();
        await again.ReadAsync();
        await again.WriteAsync(0x90, 4, 0, 1, 0, 1);
        await starting.WithinDeadline();

        await Until.TrueAsync(() => receiver.Fault is null);
        Assert.Contains("did not answer the subscriptions", _log.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_start_does_not_wait_for_a_next_hop_that_is_busy_with_the_backlog()
    {
        var time = new ManualTimeProvider();
        var busy = new ScriptedTransport(new CollectingTransport());
        var stalled = busy.Stall();
        await using var receiver = Make(static _ => { }, time, busy, "a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.WelcomeAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(ConnectionSome.Publish(1));
        await stalled.EnteredAsync();

        time.Advance(2 * new MqttOptions().ConnectTimeout);
        await starting.WithinDeadline();
        var faultMeanwhile = receiver.Fault;
        stalled.Release();
        await broker.WriteAsync(0x90, 4, 0, 1, 0, 1);

        await Until.TrueAsync(() => receiver.Fault is null);
        Assert.Contains("has not answered", faultMeanwhile, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_broker_without_shared_subscriptions_is_not_asked_for_one()
    {
        await using var receiver = Make("$share/workers/a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();
        await broker.ReadAsync();

        await broker.WriteAsync(0x20, 5, 0, 0, 2, 0x2A, 0);
        await starting.WithinDeadline();

        await Until.TrueAsync(() => receiver.Fault?.Contains("no shared subscriptions", StringComparison.Ordinal) == true);
        Assert.Equal(0xE0, (await broker.ReadToEndAsync())[0]);
    }

    [Fact]
    public async Task A_shared_connection_publishes_where_the_broker_has_none_of_the_subscriptions()
    {
        var options = ConnectionSome.Options(_broker);
        (options.SharesConnection, options.ClientId, options.Subscriptions) = (true, "some", [new MqttSubscription { Filter = "$share/workers/a" }]);
        await using var transport = new MqttTransport(options);
        await using var receiver = new MqttReceiver(transport, node: 1, new BatchReceiver(new CollectingTransport()), logger: new Logger<MqttReceiver>(_log));
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x20, 5, 0, 0, 2, 0x2A, 0);
        await starting.WithinDeadline();

        var publishing = transport.PublishManyAsync(new[] { new MqttMessage("t", Some.Bytes("x")) });
        var publish = await broker.ReadAsync();
        await broker.WriteAsync(0x40, 2, publish[5], publish[6]);

        Assert.True((await publishing.AsTask().WithinDeadline()).IsSuccess);
        Assert.Contains("no shared subscriptions", receiver.Fault, StringComparison.Ordinal);
        Assert.Equal(1, _log.Count(SubscriptionRefused));
    }

    [Theory]
    [InlineData("$share/workers/a", 0x2A)]
    [InlineData("a/+", 0x28)]
    public async Task A_subscription_that_the_broker_has_not_is_refused_alone(string unsupported, byte property)
    {
        await using var receiver = Make("b", unsupported, "c");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x20, 5, 0, 0, 2, property, 0);

        var subscribe = await broker.ReadAsync();
        await broker.WriteAsync(0x90, 5, 0, 1, 0, 1, 1);
        await starting.WithinDeadline();
        await broker.WriteAsync(ConnectionSome.Publish(1));

        Assert.Equal([0x82, 11, 0, 1, 0, 0, 1, (byte)'b', 1, 0, 1, (byte)'c', 1], subscribe);
        await Until.TrueAsync(() => receiver.GetStatistics().DeliveredMessages == 1);
        Assert.Contains($"'{unsupported}'", receiver.Fault, StringComparison.Ordinal);
        Assert.Equal(1, _log.Count(SubscriptionRefused));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Subscriptions_above_the_brokers_packet_size_go_in_several_packets_and_one_that_is_too_large_is_refused_alone(bool isShared)
    {
        var options = Options("aaaa", "d", "bbbb", new string('c', 12));
        (options.SharesConnection, options.ClientId) = (isShared, "some");
        await using var transport = isShared ? new MqttTransport(options) : null;
        await using var receiver = transport is null
            ? new MqttReceiver(options, node: 1, new BatchReceiver(new CollectingTransport()), logger: new Logger<MqttReceiver>(_log))
            : new MqttReceiver(transport, node: 1, new BatchReceiver(new CollectingTransport()), logger: new Logger<MqttReceiver>(_log));
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 16);

        var first = await broker.ReadAsync();
        await broker.WriteAsync(0x90, 5, first[2], first[3], 0, 1, 1);
        var second = await broker.ReadAsync();
        await broker.WriteAsync(0x90, 4, second[2], second[3], 0, 1);
        await starting.WithinDeadline();

        Assert.Equal([.. "aaaa"u8, 1, 0, 1, (byte)'d', 1], first[7..]);
        Assert.Equal([.. "bbbb"u8, 1], second[7..]);
        Assert.Contains("'cccccccccccc'", receiver.Fault, StringComparison.Ordinal);
        Assert.Contains("16 bytes", receiver.Fault, StringComparison.Ordinal);
        Assert.Equal(1, _log.Count(SubscriptionRefused));
    }

    [Fact]
    public async Task Retained_messages_are_asked_for_at_the_start_and_without_the_session_and_not_again_when_it_is_resumed()
    {
        await using var receiver = Make(static options => options.Subscriptions = [
            new MqttSubscription { Filter = "a", NoLocal = true, RetainAsPublished = true },
            new MqttSubscription { Filter = "b", QualityOfService = MqttQualityOfService.AtMostOnce, RetainHandling = MqttRetainHandling.DoNotSend }]);
        _ = receiver.StartAsync(CancellationToken.None);
        var asked = new List<(bool IsSessionPresent, int First, int Second)>();

        // The session of an earlier process, then without an answer, resumed, and lost.
        foreach (var (isSessionPresent, answers) in ((bool, bool)[])[(true, false), (true, true), (true, true), (false, true)])
        {
            using var broker = await _broker.AcceptAsync();
            await broker.ReadAsync();
            await broker.WriteAsync(0x20, 3, (byte)(isSessionPresent ? 1 : 0), 0, 0);
            var subscribe = await broker.ReadAsync();
            asked.Add((isSessionPresent, subscribe[8], subscribe[12]));
            if (!answers)
                continue;
            var granted = _log.Count(Receiving);
            await broker.WriteAsync(0x90, 5, 0, 1, 0, 1, 0);
            await _log.WaitForAsync(Receiving, granted + 1);
        }

        Assert.Equal([(true, 0x0D, 0x20), (true, 0x0D, 0x20), (true, 0x1D, 0x20), (false, 0x0D, 0x20)], asked);
    }

    [Fact]
    public async Task A_start_ends_with_a_stop()
    {
        await using var receiver = Make("a");
        var starting = receiver.StartAsync(CancellationToken.None);
        using var broker = await _broker.AcceptAsync();

        await receiver.StopAsync(CancellationToken.None).WithinDeadline();

        await starting.WithinDeadline();
        Assert.Equal("The receiver has stopped.", receiver.Fault);
    }

    private MqttOptions Options(params string[] filters)
    {
        var options = ConnectionSome.Options(_broker);
        options.ReconnectDelay = TimeSpan.FromMilliseconds(10);
        foreach (var filter in filters)
            options.Subscriptions.Add(new MqttSubscription { Filter = filter });
        return options;
    }

    private MqttReceiver Make(params string[] filters) => Make(static _ => { }, filters);

    private MqttReceiver Make(Action<MqttOptions> configure, params string[] filters) => Make(configure, TimeProvider.System, new CollectingTransport(), filters);

    private MqttReceiver Make(Action<MqttOptions> configure, TimeProvider timeProvider, IBatchTransport next, params string[] filters)
    {
        var options = Options(filters);
        configure(options);
        return new MqttReceiver(options, node: 1, new BatchReceiver(next), timeProvider, new Logger<MqttReceiver>(_log));
    }
}
