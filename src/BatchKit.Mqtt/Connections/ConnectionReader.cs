using System.Buffers;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Reads the packets of a connection and passes them to a handler.</summary>
internal sealed class ConnectionReader(BrokerStream stream, ReadBuffer input, MqttVersion version, int maxPacketBytes, bool acknowledgesAtOnce, KeepAlive keepAlive)
    : IDisposable
{
    // Held while packets are handled. Ending the connection takes it and does not release it.
    private readonly SemaphoreSlim _handling = new(1, 1);
    private bool _isAtEnd;

    // What is still to come of a packet that is too large to be kept.
    private int _omittedBytes;

    /// <summary>Reads until the connection ends, beginning with the bytes that were read after the CONNACK.</summary>
    /// <exception cref="IOException">The stream broke; this may be another exception that <see cref="StreamFaults.Covers"/> knows, or the handler's.</exception>
    public async Task<ConnectionEnd> RunAsync(IPacketHandler handler, CancellationToken cancellationToken)
    {
        // Packets that came with the CONNACK are handled now. A handler may block its thread, and the caller has to watch the connection meanwhile.
        if (!input.Unread.IsEmpty && !stream.Blocks)
            await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        while (_handling.Wait(0, CancellationToken.None))
        {
            try
            {
                var end = HandlePackets(handler);
                // What came before a packet that ends the connection is still delivered.
                var finishing = handler.FinishReadAsync(cancellationToken);
                if (stream.Blocks)
                    OwnThread.WaitFor(finishing);
                await finishing.ConfigureAwait(false);
                if (end is not null)
                    return end;
            }
            finally
            {
                _handling.Release();
            }

            keepAlive.BeginRead();
            var bytes = await stream.ReadAsync(input.GetMemory()).ConfigureAwait(false);
            if (bytes == 0)
            {
                _isAtEnd = true;
                return new ConnectionEnd("The broker closed the connection and named no reason: perhaps another connection has the same client id.", IsUnexplained: true);
            }

            if (acknowledgesAtOnce)
                stream.AcknowledgeAtOnce();
            keepAlive.EndRead();
            input.Advance(bytes);
        }

        return new ConnectionEnd("It was stopped.");
    }

    /// <summary>Completes when the handler has returned and will not be called again.</summary>
    public Task StopHandlingAsync() => _handling.WaitAsync();

    /// <summary>Reads and discards everything up to the end of the stream. With unread bytes, closing the socket would send a reset, which may overtake the DISCONNECT.</summary>
    public async Task DiscardAsync()
    {
        while (!_isAtEnd)
        {
            input.Consume(input.Unread.Length);
            _isAtEnd = await stream.ReadAsync(input.GetMemory()).ConfigureAwait(false) == 0;
        }
    }

    public void Dispose() => _handling.Dispose();

    private ConnectionEnd? HandlePackets(IPacketHandler handler)
    {
        try
        {
            return HandleAll(handler);
        }
        catch (MqttProtocolException exception)
        {
            return new ConnectionEnd($"The broker broke the protocol ({exception.ReasonCode}): {FailureText.MessageOf(exception)}", DisconnectCode: exception.ReasonCode);
        }
    }

    private ConnectionEnd? HandleAll(IPacketHandler handler)
    {
        while (TryTakePacket(out var header, out var body))
        {
            switch (header.Type)
            {
                case PacketType.Pingresp:
                    handler.HandlePing();
                    break;
                case PacketType.Disconnect:
                    return ReadNotice(body);
                case PacketType.Auth:
                    throw MqttProtocolException.EnhancedAuthentication();
                case PacketType.Connect or PacketType.Connack or PacketType.Subscribe or PacketType.Unsubscribe or PacketType.Pingreq:
                    throw new MqttProtocolException(MqttReasonCode.ProtocolError, $"{header.Type} is not allowed for a connected client.");
                default:
                    handler.Handle(header, body);
                    break;
            }
        }

        return null;
    }

    private bool TryTakePacket(out PacketHeader header, out ReadOnlySpan<byte> body)
    {
        header = default;
        body = default;
        var omitted = Math.Min(_omittedBytes, input.Unread.Length);
        input.Consume(omitted);
        _omittedBytes -= omitted;
        // A broker of 3.1.1 can't be told a limit, and one of MQTT 5 may ignore it. If a larger message ended the connection, the broker would send it again on every connection.
        if (_omittedBytes > 0 || !PacketHeader.TryRead(input.Unread, maxPacketBytes, out header, out var headerBytes, allowsLargePublish: true))
            return false;
        var arrived = input.Unread[headerBytes..];
        if (header.IsTooLarge ? !PublishPacket.TryOmitPayload(ref header, arrived) : arrived.Length < header.BodyBytes)
            return false;
        _omittedBytes = header.OmittedBytes;
        body = arrived[..header.BodyBytes];
        input.Consume(headerBytes + header.BodyBytes);
        return true;
    }

    private ConnectionEnd ReadNotice(ReadOnlySpan<byte> body)
    {
        var code = DisconnectPacket.Read(body, version, out var reason, out var server);
        var says = reason is null ? "" : $" It says: {MqttTopics.Show(reason)}.";
        if (server is not null)
            says += $" It names another server: {MqttTopics.Show(server)}.";
        return code == MqttReasonCode.SessionTakenOver
            ? new ConnectionEnd($"The session was taken over by another connection with the same client id.{says}", Notice: code)
            : new ConnectionEnd($"The broker ended the connection: {code} (0x{(int)code:X2}).{says}", Notice: code);
    }
}

/// <summary>Gets the packets of one connection, in order, on its reader's thread. The connection handles PINGRESP and DISCONNECT itself.</summary>
internal interface IPacketHandler
{
    /// <summary>Handles a packet, of which only the header was validated. Its memory is valid during the call.</summary>
    /// <exception cref="MqttProtocolException">The packet is malformed or not allowed at this point; the connection is closed with the reason code.</exception>
    void Handle(PacketHeader header, ReadOnlySpan<byte> body);

    /// <summary>Called when the broker has answered a PINGREQ.</summary>
    void HandlePing()
    {
    }

    /// <summary>Called after all packets of one read. Nothing more is read until the task completes.</summary>
    ValueTask FinishReadAsync(CancellationToken cancellationToken);
}

/// <summary>Holds the bytes that a connection has read and not yet handled. It grows for a large packet and returns the memory after it.</summary>
internal sealed class ReadBuffer : IDisposable
{
    private const int KeptBytes = 16 * 1024;

    private byte[] _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    private int _start;
    private int _end;

    public ReadOnlySpan<byte> Unread => _array.AsSpan(_start, _end - _start);

    /// <summary>The memory for the next read; never empty. The call may move the unread bytes.</summary>
    public Memory<byte> GetMemory()
    {
        if (_start == _end)
        {
            (_start, _end) = (0, 0);
            if (_array.Length > 2 * KeptBytes)
                MoveTo(KeptBytes);
        }
        else if (_end == _array.Length && _start > 0)
        {
            Unread.CopyTo(_array);
            (_start, _end) = (0, _end - _start);
        }
        else if (_end == _array.Length)
        {
            // The packet limit, which PacketHeader enforces, also bounds the doubling; so does the longest topic.
            MoveTo(2 * _array.Length);
        }

        return _array.AsMemory(_end);
    }

    public void Advance(int bytes) => _end += bytes;

    public void Consume(int bytes) => _start += bytes;

    public void Dispose()
    {
        ArrayPool<byte>.Shared.Return(_array);
        (_array, _start, _end) = ([], 0, 0);
    }

    private void MoveTo(int bytes)
    {
        var array = ArrayPool<byte>.Shared.Rent(bytes);
        Unread.CopyTo(array);
        ArrayPool<byte>.Shared.Return(_array);
        (_array, _start, _end) = (array, 0, _end - _start);
    }
}
