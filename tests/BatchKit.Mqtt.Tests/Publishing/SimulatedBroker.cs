using System.Text;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>The far end of a queue's connections, without a network: takes what the queue writes, and acknowledges what the test says.</summary>
internal sealed class SimulatedBroker(PublishQueue queue, MqttVersion version = MqttVersion.V5)
{
    private readonly List<ushort> _unacknowledged = [];
    private int _answered;

    /// <summary>Everything that arrived, on whatever connection.</summary>
    public List<ArrivedPublish> Arrived { get; } = [];

    public IReadOnlyList<ushort> Unacknowledged => _unacknowledged;

    public IEnumerable<string> Texts => Arrived.Select(publish => publish.Text);

    public void Connect(ConnackPacket? limits = null)
    {
        _unacknowledged.Clear();
        queue.Connect(limits ?? new ConnackPacket(), version, "mqtt://simulated");
    }

    public void Disconnect(MqttReasonCode? notice = null) => queue.Disconnect("The test ended it.", notice, isSuspicious: notice is null);

    public int Pings { get; private set; }

    /// <summary>Answers each ping once its write has completed, as a broker does. Without an answer a queue that suspects a message sends nothing more.</summary>
    public void AnswerPings()
    {
        if (_answered == Pings)
            return;
        _answered = Pings;
        queue.HandlePing();
    }

    /// <summary>Takes what the queue has to write now.</summary>
    /// <param name="completes">False: the connection is lost in that write.</param>
    /// <returns>False when it has nothing.</returns>
    public bool Take(bool completes = true)
    {
        using var buffer = new PacketBuffer();
        queue.Fill(buffer);
        if (buffer.IsEmpty)
            return false;
        Read(buffer.Bytes.Span);
        if (completes)
            queue.CompleteWrite();
        else
            Disconnect();
        return true;
    }

    /// <summary>Acknowledges one of those that wait, by its place among them.</summary>
    public void Acknowledge(int place = 0, MqttReasonCode reasonCode = MqttReasonCode.Success)
    {
        var packetId = _unacknowledged[place];
        _unacknowledged.RemoveAt(place);
        AcknowledgeId(packetId, reasonCode);
    }

    public void AcknowledgeAll()
    {
        while (_unacknowledged.Count > 0)
            Acknowledge();
    }

    public void AcknowledgeId(ushort packetId, MqttReasonCode reasonCode = MqttReasonCode.Success)
    {
        byte[] body = reasonCode == MqttReasonCode.Success ? [(byte)(packetId >> 8), (byte)packetId] : [(byte)(packetId >> 8), (byte)packetId, (byte)reasonCode];
        queue.Handle(new PacketHeader(PacketType.Puback, 0, body.Length), body);
    }

    private void Read(ReadOnlySpan<byte> bytes)
    {
        while (!bytes.IsEmpty)
        {
            Assert.True(PacketHeader.TryRead(bytes, int.MaxValue, out var header, out var headerBytes));
            if (header.Type == PacketType.Pingreq)
            {
                Pings++;
                bytes = bytes[headerBytes..];
                continue;
            }

            var publish = PublishPacket.Read(header, bytes.Slice(headerBytes, header.BodyBytes), version);
            Arrived.Add(new ArrivedPublish(Encoding.UTF8.GetString(publish.Topic), Encoding.UTF8.GetString(publish.Payload), publish.PacketId, publish.IsDuplicate) { Bytes = bytes[..(headerBytes + header.BodyBytes)].ToArray() });
            if (publish.QualityOfService == MqttQualityOfService.AtLeastOnce)
            {
                Assert.DoesNotContain(publish.PacketId, _unacknowledged);
                _unacknowledged.Add(publish.PacketId);
            }

            bytes = bytes[(headerBytes + header.BodyBytes)..];
        }
    }
}

/// <summary>A PUBLISH as it arrived.</summary>
internal sealed record ArrivedPublish(string Topic, string Text, ushort PacketId, bool IsDuplicate)
{
    public byte[] Bytes { get; init; } = [];
}
