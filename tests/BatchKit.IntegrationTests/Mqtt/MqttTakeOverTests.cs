using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Two clients with the same id, which take the session from each other.</summary>
public sealed class MqttTakeOverTests(MosquittoFixture fixture) : IDisposable
{
    private const int ConnectionLost = 222;
    private const int SessionTakenOver = 2403;
    private const int EndedAgain = 2405;

    // Longer than any pause, which tells the pause's timer from those of connecting and of the keep-alive.
    private static readonly TimeSpan Long = TimeSpan.FromMinutes(1);

    private readonly LogCollector _log = new();
    private readonly ManualTimeProvider _time = new();
    private readonly ManualTimeProvider _otherTime = new();

    public void Dispose() => _log.Dispose();

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task It_is_said_clearly_and_each_reconnects_once_a_step_of_a_pause_that_grows(MqttVersion version)
    {
        var server = await fixture.GetAsync();
        var options = new MqttOptions { Server = server.Address, Version = version, ClientId = Some.Name("twin"), ConnectTimeout = Long, KeepAlive = Long };
        await using var transport = new MqttTransport(options, _time, new Logger<MqttTransport>(_log));
        await using var other = new MqttTransport(options, _otherTime);
        await PublishAsync(transport);
        await PublishAsync(other);

        var pauses = new List<TimeSpan>();
        for (var round = 1; round <= 5; round++)
        {
            pauses.Add(await FindPauseAsync(_time));
            Assert.Equal(round, transport.GetStatistics().Connects);
            _time.Advance(pauses[^1]);
            _otherTime.Advance(await FindPauseAsync(_otherTime));
        }

        int[] most = [200, 400, 800, 1600, 3200];
        Assert.All(pauses.Zip(most), pair => Assert.InRange(pair.First.TotalMilliseconds, pair.Second / 2, pair.Second));
        // A broker may name the reason or, as Mosquitto 2.0.11, not.
        Assert.Contains(_log.Entries, static entry => entry is { Id: SessionTakenOver or EndedAgain, Level: LogLevel.Error });
        Assert.All(_log.Entries.Where(static entry => entry.Id is ConnectionLost or SessionTakenOver or EndedAgain),
            static entry => Assert.Contains("the same client id", entry.Text, StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_receiver_that_takes_the_session_over_gets_what_waits_and_the_first_one_says_why_it_gets_nothing()
    {
        var server = await fixture.GetAsync();
        var topic = Some.Name("topic");
        var options = MqttSome.Below(server, topic, options => (options.ConnectTimeout, options.KeepAlive) = (Long, Long));
        var (arrived, slow) = (new CollectingTransport(), new ScriptedTransport(new CollectingTransport()));
        var stalled = slow.Stall();
        // It pauses until its clock is moved, so that the session stays with the second one.
        await using var first = new MqttReceiver(options, node: 1, new BatchReceiver(slow), _time, new Logger<MqttReceiver>(_log));
        await first.StartAsync(CancellationToken.None).WithinDeadline();
        await using var publisher = new MqttTransport(MqttSome.Options(server));
        await publisher.PublishManyAsync(Some.Lines(100).Select(line => new MqttMessage($"{topic}/a", Some.Bytes(line))).ToArray()).WithinDeadline();
        await stalled.EnteredAsync();

        await using var second = await MqttEnds.StartAsync(options, arrived);
        await arrived.WaitForMessagesAsync(100);
        stalled.Release();
        // The receiver has its fault a moment before it is logged.
        await Until.TrueAsync(() => first.Fault is not null && _log.Entries.Any(static entry => entry.Id is ConnectionLost or SessionTakenOver));

        Assert.Equal(Some.Lines(100), arrived.Texts);
        Assert.Contains("the same client id", first.Fault, StringComparison.Ordinal);
        Assert.Contains("the same client id", Assert.Single(_log.Entries, static entry => entry.Id is ConnectionLost or SessionTakenOver).Text, StringComparison.Ordinal);
        Assert.Null(second.Fault);
    }

    private static async Task PublishAsync(MqttTransport transport)
    {
        var report = await transport.PublishManyAsync(new[] { new MqttMessage("twins", Some.Bytes("here")) }).WithinDeadline();
        Assert.True(report.IsSuccess);
    }

    // The pause that follows a lost connection: no other timer is as short.
    private static async Task<TimeSpan> FindPauseAsync(ManualTimeProvider time)
    {
        TimeSpan? due = null;
        await Until.TrueAsync(() => (due = time.NextDue) <= TimeSpan.FromSeconds(5));
        return due!.Value;
    }
}
