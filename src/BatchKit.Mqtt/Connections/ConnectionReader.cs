using System.Buffers;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Connections;

/// <summary>Reads a connection's packets and hands them on.</summary>
internal sealed class ConnectionReader(BrokerStream stream, ReadBuffer input, MqttVersion version, int maxPacketBytes, bool acknowledgesAtOnce, KeepAlive keepAlive)
    : IDisposable
{
    // Held while packets are handled; who ends the connection takes it for good.
    private readonly SemaphoreSlim _handling = new(1, 1);
    private bool _isAtEnd;

    /// <summary>Reads until the connection ends. What was read with the CONNACK comes first.</summary>
    /// <exception cref="IOException">Or another of a broken stream, or what the handler threw.</exception>
    public async Task<ConnectionEnd> RunAsync(IPacketHandler handler, CancellationToken cancellationToken)
    {
        while (_handling.Wait(0, CancellationToken.None))
        {
            try
            {
                var end = HandlePackets(handler);
                await handler.FinishReadAsync(cancellationToken).ConfigureAwait(false);
                if (end is not null)
                    return end;
            }
            catch (MqttProtocolException exception)
            {
                return new ConnectionEnd($"The broker broke the protocol ({exception.ReasonCode}): {exception.Message}", Goodbye: exception.ReasonCode);
            }
            finally
            {
                _handling.Release();
            }

            keepAlive.BeginRead();
            var bytes = await stream.Stream.ReadAsync(input.MakeRoom(), CancellationToken.None).ConfigureAwait(false);
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

    /// <summary>Completes when the handler is not busy, and will not be called again.</summary>
    public Task StopHandlingAsync() => _handling.WaitAsync();

    /// <summary>Reads what still comes, for nobody, to its end: bytes left unread would turn the closing into a reset that may overtake the goodbye.</summary>
    public async Task DiscardAsync()
    {
        while (!_isAtEnd)
        {
            input.Consume(input.Unread.Length);
            _isAtEnd = await stream.Stream.ReadAsync(input.MakeRoom(), CancellationToken.None).ConfigureAwait(false) == 0;
        }
    }

    public void Dispose() => _handling.Dispose();

    private ConnectionEnd? HandlePackets(IPacketHandler handler)
    {
        while (PacketHeader.TryRead(input.Unread, maxPacketBytes, out var header, out var headerBytes) && input.Unread.Length - headerBytes >= header.BodyBytes)
        {
            var body = input.Unread.Slice(headerBytes, header.BodyBytes);
            input.Consume(headerBytes + header.BodyBytes);
            switch (header.Type)
            {
                case PacketType.Pingresp:
                    break;
                case PacketType.Disconnect:
                    return ReadNotice(body);
                case PacketType.Connect or PacketType.Connack or PacketType.Subscribe or PacketType.Unsubscribe or PacketType.Pingreq or PacketType.Auth:
                    throw new MqttProtocolException(MqttReasonCode.ProtocolError, $"{header.Type} is not for a client that is connected.");
                default:
                    handler.Handle(header, body);
                    break;
            }
        }

        return null;
    }

    private ConnectionEnd ReadNotice(ReadOnlySpan<byte> body)
    {
        var code = DisconnectPacket.Read(body, version, out var reason);
        var says = reason is null ? "" : $" It says: {MqttTopics.Show(reason)}.";
        return code == MqttReasonCode.SessionTakenOver
            ? new ConnectionEnd($"The session was taken over by another connection with the same client id.{says}", Notice: code)
            : new ConnectionEnd($"The broker ended the connection: {code} (0x{(int)code:X2}).{says}", Notice: code);
    }
}

/// <summary>Gets the packets of one connection, in their order, on its reader's thread. PINGRESP and DISCONNECT are the connection's own.</summary>
internal interface IPacketHandler
{
    /// <summary>One packet, checked for its header only. Its memory is valid during the call.</summary>
    /// <exception cref="MqttProtocolException">It is malformed or out of place; the connection is closed with the reason code.</exception>
    void Handle(PacketHeader header, ReadOnlySpan<byte> body);

    /// <summary>All packets that one read brought were given. Nothing more is read until this completes.</summary>
    ValueTask FinishReadAsync(CancellationToken cancellationToken);
}

/// <summary>Holds what a connection has read and not yet handed on. Grows for a large packet, and gives the memory back after it.</summary>
internal sealed class ReadBuffer : IDisposable
{
    private const int KeptBytes = 16 * 1024;

    private byte[] _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    private int _start;
    private int _end;

    public ReadOnlySpan<byte> Unread => _array.AsSpan(_start, _end - _start);

    /// <summary>Where the next read goes; never empty. What is unread may move.</summary>
    public Memory<byte> MakeRoom()
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
            // Who reads the headers refuses a packet past the limit, so doubling ends there.
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
