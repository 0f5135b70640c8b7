using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>What is under way, over all connections: decides what the next write carries, and settles what is acknowledged. Guarded by the queue's lock.</summary>
internal sealed class PublishSession(MqttOptions options, PublishSends sends)
{
    private readonly PublishWindow _window = new();

    // QoS 0: done as soon as the network has them.
    private readonly List<(PublishGroup Group, int Index)> _beingWritten = [];
    private PublishCounters _counters;

    // Null while there is no connection.
    private PublishEncoder? _encoder;
    private MqttVersion _version;
    private string _target = "";

    public bool IsConnected => _encoder is not null;

    public uint MaxPacketBytes { get; private set; } = uint.MaxValue;

    public MqttTransportStatistics Statistics => _counters.With(_window);

    public void Accept(int messages) => _counters.Accepted += messages;

    public void Connect(ConnackPacket limits, MqttVersion version, string target)
    {
        _encoder = new PublishEncoder(limits, version, target, options);
        (_version, _target, MaxPacketBytes) = (version, target, limits.MaxPacketBytes);
        _window.Restart(Math.Min(options.PublishWindow, limits.ReceiveMaximum));
        _counters.Connects++;
    }

    /// <param name="notice">What the broker said in a DISCONNECT; null when it said nothing.</param>
    public void Disconnect(MqttReasonCode? notice)
    {
        _encoder = null;
        if (notice is { } reasonCode && BlamesMessage(reasonCode))
            FindBlamed(reasonCode);
        // At most once: sent again it might arrive twice.
        _counters.Lost += _beingWritten.Count;
        CompleteWrite();
    }

    public void Fill(PacketBuffer buffer)
    {
        if (_encoder is { } encoder && SendAgain(encoder, buffer))
            SendNew(encoder, buffer);
    }

    public void CompleteWrite()
    {
        foreach (var (group, index) in _beingWritten)
            Settle(group, index, default);
        _beingWritten.Clear();
    }

    public void Acknowledge(ReadOnlySpan<byte> puback)
    {
        var packetId = PubackPacket.Read(puback, _version, out var reasonCode, out var reason);
        var result = new MqttPublishResult(reasonCode);
        if (!result.IsSuccess)
            result = new MqttPublishResult(reasonCode, $"{_target} refused it: {reasonCode} (0x{(int)reasonCode:X2}){(reason is null ? "." : $", {MqttTopics.Show(reason)}.")}");
        if (_window.TryRemove(packetId, out var group, out var index))
            Settle(group, index, result);
    }

    private static bool BlamesMessage(MqttReasonCode reasonCode) => reasonCode is MqttReasonCode.MalformedPacket or MqttReasonCode.ProtocolError or MqttReasonCode.TopicNameInvalid
        or MqttReasonCode.PacketTooLarge or MqttReasonCode.PayloadFormatInvalid or MqttReasonCode.RetainNotSupported or MqttReasonCode.QoSNotSupported;

    // Sent again it would end every connection. Which it is shows when each is under way alone (Mosquitto ends the connection for a topic of more than 200 levels).
    private void FindBlamed(MqttReasonCode reasonCode)
    {
        if (_window.IsIsolating && _window.TryRemoveOnly(out var group, out var index))
            Settle(group, index, new MqttPublishResult(reasonCode, $"{_target} ended the connection for it: {reasonCode} (0x{(int)reasonCode:X2})."));
        else
            _window.Isolate();
    }

    // False when there is no room for all of it.
    private bool SendAgain(PublishEncoder encoder, PacketBuffer buffer)
    {
        while (_window.HasResends)
        {
            var (group, index, packetId) = _window.NextResend;
            if (group.Owner is null)
            {
                // Its send was given up before this connection came to it.
                _window.RemoveResend();
                group.SendAgain(index);
                continue;
            }

            var fields = default(PublishFields);
            var result = Check(encoder, group, index, ref fields, out var bytes);
            if (!result.IsSuccess)
            {
                _window.RemoveResend();
                Settle(group, index, result);
                continue;
            }

            if (!_window.HasQuota || !buffer.TryReserve(bytes, out var room))
                return false;
            encoder.Write(room, fields, packetId, isDuplicate: true);
            buffer.Advance(bytes);
            _window.AdvanceResend();
            _counters.Resent++;
        }

        return true;
    }

    private void SendNew(PublishEncoder encoder, PacketBuffer buffer)
    {
        while (sends.Next is { } group)
        {
            var index = group.NextIndex;
            var fields = default(PublishFields);
            var result = Check(encoder, group, index, ref fields, out var bytes);
            if (!result.IsSuccess)
            {
                group.Advance();
                Settle(group, index, result);
                continue;
            }

            var isAcknowledged = fields.QualityOfService == MqttQualityOfService.AtLeastOnce;
            if ((isAcknowledged && !_window.HasRoom) || !buffer.TryReserve(bytes, out var room))
                return;
            encoder.Write(room, fields, isAcknowledged ? _window.NextPacketId : (ushort)0, isDuplicate: false);
            buffer.Advance(bytes);
            group.Advance();
            if (isAcknowledged)
                _window.Add(group, index);
            else
                _beingWritten.Add((group, index));
        }
    }

    private static MqttPublishResult Check(PublishEncoder encoder, PublishGroup group, int index, ref PublishFields fields, out int bytes)
    {
        bytes = 0;
        var result = group.Read(index, ref fields);
        return result.IsSuccess ? encoder.Check(fields, out bytes) : result;
    }

    private void Settle(PublishGroup group, int index, MqttPublishResult result)
    {
        if (result.IsSuccess)
            _counters.Acknowledged++;
        else
            _counters.Refused++;
        group.Settle(index, result);
    }
}
