using System.Text;
using BatchKit.Mqtt.Tests.Connections;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A broker that never acknowledges some messages, as RabbitMQ over MQTT 3.1.1 when a queue rejects them.</summary>
public sealed class StalledWindowTests : IDisposable
{
    private const int Window = 4;
    private const int Publish = 3;

    private readonly FakeBroker _broker = new();

    public void Dispose() => _broker.Dispose();

    [Theory]
    [InlineData(MqttVersion.V311)]
    [InlineData(MqttVersion.V5)]
    public async Task A_window_of_messages_that_are_never_acknowledged_does_not_stop_the_others(MqttVersion version)
    {
        var changes = new List<string?>();
        var options = ConnectionSome.Options(_broker, version);
        (options.PublishWindow, options.PublishTimeout, options.ReconnectDelay) = (Window, TimeSpan.FromMilliseconds(500), TimeSpan.FromMilliseconds(10));
        options.ConnectionChanged = change => changes.Add(change.Reason);
        _ = ServeAsync(version);
        await using var transport = new MqttTransport(options);

        var bad = transport.PublishManyAsync(Enumerable.Repeat(new MqttMessage("bad", default), Window).ToArray()).AsTask();
        await Assert.ThrowsAsync<TimeoutException>(() => bad.WithinDeadline());
        await PublishAsync(transport, new MqttMessage("good", default)).WithinDeadline();

        Assert.Contains(changes, static reason => reason?.Contains("did not acknowledge any of 4 messages", StringComparison.Ordinal) == true);
    }

    // A busy machine may take longer than the limit.
    private static async Task PublishAsync(MqttTransport transport, MqttMessage message)
    {
        while (true)
        {
            try
            {
                Assert.True((await transport.PublishManyAsync(new[] { message })).IsSuccess);
                return;
            }
            catch (Exception exception) when (exception is TimeoutException or IOException)
            {
                // It goes again.
            }
        }
    }

    private async Task ServeAsync(MqttVersion version)
    {
        while (true)
        {
            using var client = await _broker.WelcomeAsync(version);
            try
            {
                while (true)
                {
                    var packet = await client.ReadAsync();
                    if (packet[0] == ConnectionSome.PingRequest[0])
                        await client.WriteAsync(ConnectionSome.PingResponse);
                    else if (packet[0] >> 4 == Publish && Encoding.UTF8.GetString(packet, 4, packet[3]) is var topic && topic != "bad")
                        await client.WriteAsync(0x40, 2, packet[4 + topic.Length], packet[5 + topic.Length]);
                }
            }
            catch (IOException)
            {
                // The next connection.
            }
        }
    }
}
