using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Takes what one connection brings, a read at a time, and acknowledges it when it is handed on. Meanwhile nothing is read, so the broker is held up by TCP.</summary>
/// <param name="arrivals">Gathers and hands on.</param>
/// <param name="receiver">Where to.</param>
/// <param name="output">Where the acknowledgements go.</param>
/// <param name="version">The connection's.</param>
/// <param name="abandon">Gives up what is in hand. The connection's own token does not: what is in hand is finished when the connection is lost.</param>
internal sealed class SubscribedConnection(IArrivals arrivals, BatchReceiver receiver, PacketOutput output, MqttVersion version, CancellationToken abandon)
    : IPacketHandler
{
    private readonly TaskCompletionSource<SubackPacket> _subscribed = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private byte[] _acknowledgements = new byte[64 * PubackPacket.Bytes];
    private int _acknowledgementBytes;
    private volatile bool _isHandingOn;

    /// <summary>Completes with the broker's answer to the subscriptions.</summary>
    public Task<SubackPacket> Subscribed => _subscribed.Task;

    /// <summary>True while the next hop has not taken what was read.</summary>
    public bool IsHandingOn => _isHandingOn;

    public void Handle(PacketHeader header, ReadOnlySpan<byte> body)
    {
        switch (header.Type)
        {
            case PacketType.Publish:
                Take(PublishPacket.Read(header, body, version));
                break;
            case PacketType.Suback:
                _subscribed.TrySetResult(SubackPacket.Read(body, version));
                break;
            default:
                throw MqttProtocolException.Forbidden($"{header.Type} is not for a client that publishes nothing and has QoS 1 at most.");
        }
    }

    public ValueTask FinishReadAsync(CancellationToken cancellationToken) => arrivals.IsEmpty ? ValueTask.CompletedTask : HandOnAsync();

    private void Take(in ReceivedPublish publish)
    {
        if (publish.TopicAlias != 0)
            throw new MqttProtocolException(MqttReasonCode.TopicAliasInvalid, "The broker used a topic alias, and was not allowed any.");
        if (publish.QualityOfService == MqttQualityOfService.ExactlyOnce)
            throw new MqttProtocolException(MqttReasonCode.QoSNotSupported, "The broker sent with QoS 2, and no subscription asked for it.");
        arrivals.Add(publish);
        if (publish.QualityOfService == MqttQualityOfService.AtMostOnce)
            return;
        if (_acknowledgementBytes == _acknowledgements.Length)
            Array.Resize(ref _acknowledgements, 2 * _acknowledgements.Length);
        PubackPacket.Write(_acknowledgements.AsSpan(_acknowledgementBytes), publish.PacketId);
        _acknowledgementBytes += PubackPacket.Bytes;
    }

    private async ValueTask HandOnAsync()
    {
        _isHandingOn = true;
        try
        {
            await arrivals.HandOnAsync(receiver, abandon).ConfigureAwait(false);
            output.Append(_acknowledgements.AsSpan(0, _acknowledgementBytes));
            output.Flush();
        }
        catch (OperationCanceledException) when (abandon.IsCancellationRequested)
        {
            // Not acknowledged: the broker keeps it and the next receiver gets it.
        }
        finally
        {
            _acknowledgementBytes = 0;
            _isHandingOn = false;
        }
    }
}
