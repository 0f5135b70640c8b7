using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>A receiver whose next hop takes longer for each send than every time limit of the receiver.</summary>
public sealed class MqttSlowHopTests
{
    private const int Backlog = 2000;

    private static readonly TimeSpan ReconnectDelay = TimeSpan.FromMilliseconds(500);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _time = new();
    private readonly string _topic = Some.Name("topic");

    [Theory]
    [InlineData(MqttVersion.V5, null)]
    [InlineData(MqttVersion.V5, "slow")]
    [InlineData(MqttVersion.V311, "slow")]
    public async Task A_backlog_arrives_once_and_in_order(MqttVersion version, string? clientId)
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        await using var server = await MosquittoServer.StartOwnAsync(new MosquittoServerOptions { MaxQueued = 0 });
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var receiver = Receiver(proxy, version, clientId);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        // The broker keeps the session: its connection breaks without a DISCONNECT.
        proxy.ResetAll();
        await Until.TrueAsync(() => _time.NextDue <= ReconnectDelay);
        await MosquittoProgram.PublishAsync(server, string.Concat(Some.Lines(Backlog).Select(static line => $"{line}\n")), "-q", "1", "-l", "-t", $"{_topic}/a");
        _time.Advance(ReconnectDelay);
        await Until.TrueAsync(() => Task.FromResult(_arrived.MessageCount >= Backlog), () => Task.FromResult(_arrived.MessageCount));

        Assert.Equal(Some.Lines(Backlog), _arrived.Texts);
        Assert.Equal(2, proxy.AcceptedConnections);
        // Each send is a fault until the receiver has learned of its end.
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    private MqttReceiver Receiver(TcpProxy proxy, MqttVersion version, string? clientId)
    {
        var options = new MqttOptions
        {
            Server = new Uri($"mqtt://127.0.0.1:{proxy.Port}"),
            Version = version,
            ClientId = clientId,
            ReconnectDelay = ReconnectDelay,
            MaxReconnectDelay = ReconnectDelay,
            Subscriptions = [new MqttSubscription { Filter = $"{_topic}/#" }],
        };
        return new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(new SlowHop(_arrived, _time)), _time);
    }

    /// <summary>Takes a minute of the manual clock for each send.</summary>
    private sealed class SlowHop(CollectingTransport next, ManualTimeProvider time) : IBatchTransport
    {
        public bool SendsWithoutBlocking => false;

        public int MaxMessageBytes => next.MaxMessageBytes;

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            for (var second = 0; second < 60; second++)
            {
                time.Advance(TimeSpan.FromSeconds(1));
                await Task.Yield();
            }

            await next.SendAsync(batches, cancellationToken);
        }
    }
}
