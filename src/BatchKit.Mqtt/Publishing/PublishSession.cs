using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>The messages in flight, over all connections: decides what the next write contains, and settles acknowledged messages. Guarded by the queue's lock.</summary>
internal sealed class PublishSession(MqttOptions options, PublishSends sends, TimeProvider timeProvider)
{
    private readonly PublishWindow _window = new();

    // Messages with QoS 0, which are settled as soon as they are written.
    private readonly List<(PublishGroup Group, int Index)> _beingWritten = [];
    private PublishCounters _counters;

    private readonly SuspectMessage _suspect = new();

    // Null while there is no connection.
    private PublishEncoder? _encoder;
    private MqttVersion _version;
    private string _target = "";

    // Since when the window has been full without an acknowledgement; null while it is not.
    private long? _fullSince;

    public bool IsConnected => _encoder is not null;

    public ushort UnusedPacketId => _window.UnusedPacketId;

    public uint MaxPacketBytes { get; private set; } = uint.MaxValue;

    public MqttTransportStatistics Statistics => _counters.With(_window);

    public void Accept(int messages) => _counters.Accepted += messages;

    public void Connect(ConnackPacket limits, MqttVersion version, string target)
    {
        _encoder = new PublishEncoder(limits, version, target, options);
        (_version, _target, MaxPacketBytes) = (version, target, limits.MaxPacketBytes);
        _window.Restart(Math.Min(options.PublishWindow, limits.ReceiveMaximum));
        _suspect.Connect();
        _fullSince = null;
        _counters.Connects++;
    }

    /// <param name="notice">The reason code of the broker's DISCONNECT; null when it sent none.</param>
    /// <param name="isSuspicious">True when the broker sent no DISCONNECT and a message may be why the connection ended.</param>
    public void Disconnect(MqttReasonCode? notice, bool isSuspicious)
    {
        _encoder = null;
        if (notice is { } reasonCode && EndReasons.BlamesMessage(reasonCode))
            FindBlamed(reasonCode);
        else if (notice is { } other ? !EndReasons.IsHarmless(other) : isSuspicious)
            FindSuspect(notice);
        // QoS 0 means at most once: a message that is sent again might arrive twice.
        _counters.Lost += _beingWritten.Count;
        CompleteWrite();
    }

    public void Fill(PacketBuffer buffer)
    {
        if (_encoder is not { } encoder)
            return;
        if (_window.IsIsolating && _suspect.NeedsProof && !_suspect.IsConnectionProven)
            _suspect.ProveConnection(buffer);
        // During isolation nothing new is sent, not even with QoS 0. If the connection ended because of a new message, the only unacknowledged message would be blamed.
        else if (Resend(encoder, buffer) && !_window.IsIsolating)
            SendNew(encoder, buffer);
        if (_window.HasCapacity)
            _fullSince = null;
        else
            _fullSince ??= timeProvider.GetTimestamp();
    }

    /// <summary>
    /// Why the connection must end: messages whose sends were given up fill the window. A broker may never acknowledge a message, as RabbitMQ over MQTT 3.1.1 when a queue rejects it, and the message keeps its place
    /// as long as the connection. Null when there is no reason.
    /// </summary>
    public string? FindStall()
    {
        // A call that filled the window began before it was full, so that its own limit would come too early.
        if (!IsConnected || _fullSince is not { } since || timeProvider.GetElapsedTime(since) < options.PublishTimeout / 2 || !_window.HasOwnerless)
            return null;
        return $"The broker did not acknowledge any of {_window.Unacknowledged} messages within {options.PublishTimeout / 2} (half of {nameof(MqttOptions.PublishTimeout)}), and the window has no place for more.";
    }

    /// <summary>The broker has answered a PINGREQ.</summary>
    public void AcceptPing() => _suspect.IsConnectionProven = true;

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
            result = new MqttPublishResult(reasonCode, $"{_target} refused the message: {reasonCode} (0x{(int)reasonCode:X2}){(reason is null ? "." : $", {MqttTopics.Show(reason)}.")}");
        _suspect.Forget();
        _fullSince = null;
        if (!_window.TryRemove(packetId, out var group, out var index))
            return;
        if (!result.IsSuccess && group.SendsAgain && ReasonTable.IsTransient((int)reasonCode))
            group.Defer(index, result.Reason!);
        else
            Settle(group, index, result);
    }

    // The broker ends every connection on which that message is sent, as Mosquitto does for a topic with more than 200 levels. Sending the messages one by one shows
    // which message it is.
    private void FindBlamed(MqttReasonCode reasonCode)
    {
        if (_window.IsIsolating && _window.TryGetOnly(out var group, out var index, out var packetId))
            Refuse(group, index, packetId, new MqttPublishResult(reasonCode, $"{_target} ended the connection because of the message: {reasonCode} (0x{(int)reasonCode:X2})."));
        else
            _window.Isolate();
    }

    // The broker gave no reason, or one that may mean anything. So a message is suspected only when several consecutive connections end without any acknowledgement.
    private void FindSuspect(MqttReasonCode? notice)
    {
        if (_window.IsIsolating && _window.TryGetOnly(out var group, out var index, out var packetId))
        {
            if (_suspect.EndAlone(group, index))
            {
                // Sent again, it would end the next connections too, so its code must be a final one.
                var reasonCode = notice is >= MqttReasonCode.UnspecifiedError and var code && !ReasonTable.IsTransient((int)code) ? code : MqttReasonCode.ProtocolError;
                var why = notice is { } given ? $"({given}, 0x{(int)given:X2})" : "without a reason";
                Refuse(group, index, packetId, new MqttPublishResult(
                    reasonCode, $"{_target} closed {SuspectMessage.MaxEndsAlone} consecutive connections {why} when it got this message alone."));
            }
        }
        else if (!_window.IsIsolating && _window.Unacknowledged > 0 && _suspect.EndAmongOthers())
        {
            _window.Isolate();
        }
    }

    private void Refuse(PublishGroup group, int index, ushort packetId, MqttPublishResult result)
    {
        _window.TryRemove(packetId, out _, out _);
        _suspect.Forget();
        Settle(group, index, result);
    }

    // False when the window or the buffer is full.
    private bool Resend(PublishEncoder encoder, PacketBuffer buffer)
    {
        while (_window.HasResends)
        {
            var (group, index, packetId) = _window.NextResend;
            if (group.Owner is null)
            {
                // The send was given up before this connection resent the message.
                _window.RemoveResend();
                group.Resend(index);
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

            if (!_window.HasQuota || !buffer.TryReserve(bytes, out var memory))
                return false;
            encoder.Write(memory, fields, packetId, isDuplicate: encoder.IsSessionResumed);
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
            if ((isAcknowledged && !_window.HasCapacity) || !buffer.TryReserve(bytes, out var memory))
                return;
            encoder.Write(memory, fields, isAcknowledged ? _window.NextPacketId : (ushort)0, isDuplicate: false);
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
        try
        {
            var result = group.Read(index, ref fields);
            return result.IsSuccess ? encoder.Check(fields, out bytes) : result;
        }
        catch (Exception exception)
        {
            // The memory of a call's messages is the application's, which may have disposed it. That must not end the connection of all others.
            return new MqttPublishResult(MqttReasonCode.ImplementationSpecificError, $"The message can't be read: {exception.GetType().Name}. {FailureText.MessageOf(exception)}");
        }
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

/// <summary>The counters of a queue. Guarded by its lock.</summary>
internal struct PublishCounters
{
    public long Accepted;
    public long Acknowledged;
    public long Refused;
    public long Lost;
    public long Resent;
    public long Connects;

    public readonly MqttTransportStatistics With(PublishWindow window) => new()
    {
        AcceptedMessages = Accepted,
        AcknowledgedMessages = Acknowledged,
        RefusedMessages = Refused,
        LostMessages = Lost,
        ResentMessages = Resent,
        Connects = Connects,
        Window = window.Quota,
        InFlightMessages = window.Unacknowledged,
    };
}

/// <summary>What the reason code of the broker's DISCONNECT says about the messages in flight. See docs/decisions/0138.</summary>
internal static class EndReasons
{
    /// <summary>True when one of the messages is the reason.</summary>
    public static bool BlamesMessage(MqttReasonCode reasonCode) => reasonCode is MqttReasonCode.MalformedPacket or MqttReasonCode.ProtocolError or MqttReasonCode.TopicNameInvalid
        or MqttReasonCode.PacketTooLarge or MqttReasonCode.PayloadFormatInvalid or MqttReasonCode.RetainNotSupported or MqttReasonCode.QoSNotSupported;

    /// <summary>
    /// True when the broker would have ended the connection without the messages too. Any other reason may be a message's: brokers end the connection with 0x00, 0x80, 0x83, 0x87 or 0x98 for a message that they
    /// don't allow.
    /// </summary>
    public static bool IsHarmless(MqttReasonCode reasonCode) => reasonCode is MqttReasonCode.ServerUnavailable or MqttReasonCode.ServerBusy or MqttReasonCode.Banned
        or MqttReasonCode.ServerShuttingDown or MqttReasonCode.KeepAliveTimeout or MqttReasonCode.SessionTakenOver or MqttReasonCode.MessageRateTooHigh or MqttReasonCode.QuotaExceeded
        or MqttReasonCode.UseAnotherServer or MqttReasonCode.ServerMoved or MqttReasonCode.ConnectionRateExceeded or MqttReasonCode.MaximumConnectTime;
}
