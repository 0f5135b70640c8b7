using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>
/// Keeps a PUBLISH that breaks the protocol from stopping what comes behind it. The first one closes the connection, as section 4.13 asks. The broker has then been told, and may send it on each
/// connection again, so later ones are skipped with their acknowledgement. See docs/decisions/0137.
/// </summary>
internal sealed class Quarantine(ReceiverLog log)
{
    private bool _hasClosed;
    private long _skipped;

    /// <summary>The number of messages that were skipped. Thread-safe.</summary>
    public long Skipped => Volatile.Read(ref _skipped);

    /// <summary>Reads a PUBLISH. One reader at a time.</summary>
    /// <returns>False when the message is skipped; only its QoS and its packet id are then known, and the packet id is 0 when it can't be acknowledged.</returns>
    /// <exception cref="MqttProtocolException">The packet breaks the protocol, for the first time.</exception>
    public bool TryRead(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version, out ReceivedPublish publish)
    {
        try
        {
            publish = PublishPacket.Read(header, body, version);
            if (publish.TopicAlias != 0)
                throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "The broker used a topic alias, which this client does not allow.");
        }
        catch (MqttProtocolException exception) when (_hasClosed)
        {
            publish = DamagedPublish.Read(header, body);
            Interlocked.Increment(ref _skipped);
            Log.MessageSkipped(log, header.BodyBytes + header.OmittedBytes, ShowTopic(publish), exception);
            return false;
        }
        catch (MqttProtocolException)
        {
            _hasClosed = true;
            throw;
        }

        if (publish.OmittedBytes == 0)
            return true;
        Interlocked.Increment(ref _skipped);
        Log.MessageOmitted(log, ShowTopic(publish), publish.OmittedBytes);
        return false;
    }

    private static string ShowTopic(in ReceivedPublish publish) => MqttTopics.Show(Encoding.UTF8.GetString(publish.Topic));
}
