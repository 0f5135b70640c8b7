using System.Buffers;
using System.Net.WebSockets;
using System.Text.Unicode;
using BatchKit.Broadcast.Receiving;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Reads a client's messages through the framework's WebSocket, and answers its close frame.</summary>
internal sealed class WebSocketInbound(
    ClientConnection connection,
    WebSocket socket,
    UpgradedStream stream,
    UpgradedWire wire,
    BroadcastOptions options,
    WebSocketEndpointOptions endpoint,
    ILogger logger) : IInbound
{
    // Created for the first message: many clients only listen.
    private MessageAssembly? _assembly;

    public WebSocket Socket => socket;

    public UpgradedWire Wire => wire;

    // One method and not two: while a client is silent, each would hold a state machine of 140 bytes and more.
    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        using var input = new UpgradedInput(wire);
        stream.Attach(connection, delivery, wire.Path);
        while (true)
        {
            ValueWebSocketReceiveResult received;
            bool hasWaited;
            try
            {
                received = await ReceiveAsync(delivery, out hasWaited, cancellationToken).ConfigureAwait(false);
            }
            catch (Exception failure) when (failure is WebSocketException or OperationCanceledException or IOException)
            {
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
                return await EndAsync(EndAfter(failure), cancellationToken).ConfigureAwait(false);
            }

            if (!stream.SeesInput)
                delivery.TryNote(received.Count);
            if (received.MessageType == WebSocketMessageType.Close)
            {
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
                connection.Output.Complete(WebSocketClosings.Answer(socket.CloseStatus));
                return await EndAsync(InboundEnd.Closed, cancellationToken).ConfigureAwait(false);
            }

            var kind = received.MessageType == WebSocketMessageType.Text ? RecordKind.Data : RecordKind.Binary;
            _assembly ??= new MessageAssembly(options.MaxRecordBytes, endpoint);
            var fault = _assembly.Add(received.Count, received.EndOfMessage, kind);
            if (fault != MessageFault.None || _assembly.IsFull)
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
            if (fault != MessageFault.None)
                return await EndAsync(EndFaulty(fault), cancellationToken).ConfigureAwait(false);
            if (!stream.SeesInput)
                await delivery.WhenMayReadAsync(hasWaited, received.Count).ConfigureAwait(false);
        }
    }

    /// <summary>Receives, and delivers what was received before when it has to wait.</summary>
    private ValueTask<ValueWebSocketReceiveResult> ReceiveAsync(InboundDelivery delivery, out bool hasWaited, CancellationToken cancellationToken)
    {
        var receiving = socket.ReceiveAsync(_assembly?.GetFree() ?? default, cancellationToken);
        hasWaited = !receiving.IsCompleted;
        return hasWaited && _assembly is { Records.IsEmpty: false } ? DeliverMeanwhileAsync(receiving, delivery, cancellationToken) : receiving;
    }

    private async ValueTask<ValueWebSocketReceiveResult> DeliverMeanwhileAsync(
        ValueTask<ValueWebSocketReceiveResult> receiving, InboundDelivery delivery, CancellationToken cancellationToken)
    {
        await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
        return await receiving.ConfigureAwait(false);
    }

    private async Task<InboundEnd> EndAsync(InboundEnd end, CancellationToken cancellationToken)
    {
        _assembly?.Release();
        wire.Path.ChooseStream("the client's input ended first");
        if (end != InboundEnd.ProtocolError)
            return end;
        connection.Close(DisconnectReason.ProtocolError);
        await connection.Output.Ended.ConfigureAwait(false);
        await wire.EndSendingAsync().ConfigureAwait(false);
        await ReadToEndAsync(cancellationToken).ConfigureAwait(false);
        return end;
    }

    private async ValueTask DeliverAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        if (_assembly is null || _assembly.Records.IsEmpty)
            return;
        await delivery.DeliverAsync(_assembly.Records, cancellationToken).ConfigureAwait(false);
        _assembly.Clear();
    }

    private InboundEnd EndAfter(Exception failure)
    {
        if (!stream.HasClosed)
            return InboundEnd.Lost;
        Log.ProtocolBroken(logger, connection, FailureText.MessageOf(failure));
        return InboundEnd.ProtocolError;
    }

    private InboundEnd EndFaulty(MessageFault fault)
    {
        Log.ProtocolBroken(logger, connection, fault switch
        {
            MessageFault.TooLong => $"a message of more than {options.MaxRecordBytes} bytes",
            MessageFault.Binary => $"a binary message on an endpoint for text, whose {nameof(WebSocketEndpointOptions.AcceptsBinary)} is not set",
            _ => "a text that is not UTF-8",
        });
        connection.Output.Complete(fault switch
        {
            MessageFault.TooLong => WebSocketClosings.TooBig,
            MessageFault.Binary => WebSocketClosings.UnacceptedKind,
            _ => WebSocketClosings.InvalidText,
        });
        return InboundEnd.ProtocolError;
    }

    /// <summary>Reads until the client's end: closing with unread input would reset the connection, and the client might lose the close frame.</summary>
    private async Task ReadToEndAsync(CancellationToken cancellationToken)
    {
        var discarded = new byte[1024];
        try
        {
            while (await stream.ReadAsync(discarded, cancellationToken).ConfigureAwait(false) > 0)
            {
            }
        }
        catch (Exception failure) when (failure is IOException or OperationCanceledException)
        {
            // The client is gone, or its time is up. Both end the reading.
        }
    }
}

/// <summary>Joins received fragments to messages, in one rented array. It holds no array while it holds no bytes.</summary>
internal sealed class MessageAssembly(int maxRecordBytes, WebSocketEndpointOptions endpoint)
{
    private const int FirstBytes = 4096;
    private const int MaxRecords = 256;

    private byte[] _array = [];
    private ReceivedRecord[] _records = [];
    private int _count;
    private int _messageStart;
    private int _end;
    private bool _isInMessage;

    /// <summary>The complete messages that are not delivered yet.</summary>
    public ReadOnlyMemory<ReceivedRecord> Records => _records.AsMemory(0, _count);

    /// <summary>True when the messages must be delivered before more is received.</summary>
    public bool IsFull => _count >= MaxRecords || (_count > 0 && _end == _array.Length);

    /// <summary>Memory to receive into, at most one byte more than a message may have. Empty while nothing is held: the receive then only waits for data.</summary>
    public Memory<byte> GetFree()
    {
        if (_count == 0 && !_isInMessage)
        {
            Release();
            return default;
        }

        if (_end == _array.Length)
            Grow();
        return _array.AsMemory(_end, Math.Min(_array.Length - _end, maxRecordBytes + 1 - (_end - _messageStart)));
    }

    /// <summary>Adds what was received into <see cref="GetFree"/>'s memory.</summary>
    public MessageFault Add(int bytes, bool isEnd, RecordKind kind)
    {
        _end += bytes;
        _isInMessage = !isEnd;
        var message = _array.AsMemory(_messageStart, _end - _messageStart);
        if (kind == RecordKind.Binary && !(endpoint.AcceptsBinary ?? endpoint.SendsBinary))
            return MessageFault.Binary;
        if (message.Length > maxRecordBytes)
            return MessageFault.TooLong;
        if (!isEnd)
            return MessageFault.None;

        // The framework's WebSocket checks texts as they arrive, but misses a character that an empty last fragment leaves incomplete.
        if (bytes == 0 && kind == RecordKind.Data && !Utf8.IsValid(message.Span))
            return MessageFault.InvalidText;
        if (endpoint.FiltersText && kind == RecordKind.Data && !PlayerText.IsClean(message.Span))
            message = message[..PlayerText.Filter(message.Span, message.Span, endpoint.KeepsLineFeeds)];
        if (_count == _records.Length)
            Array.Resize(ref _records, Math.Max(1, _count * 2));
        _records[_count++] = new ReceivedRecord(message, kind);
        _messageStart = _end;
        return MessageFault.None;
    }

    /// <summary>Forgets the messages that were delivered.</summary>
    public void Clear()
    {
        Array.Clear(_records, 0, _count);
        _count = 0;
    }

    /// <summary>Returns the array; nothing may be received into it afterwards.</summary>
    public void Release()
    {
        (_messageStart, _end) = (0, 0);
        if (_array.Length == 0)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = [];
    }

    private void Grow()
    {
        // Called only while there are no records, because their bytes lie in the array.
        var begun = _end - _messageStart;
        var larger = ArrayPool<byte>.Shared.Rent(Math.Max(FirstBytes, (int)Math.Min((long)begun * 2, maxRecordBytes + 1L)));
        _array.AsSpan(_messageStart, begun).CopyTo(larger);
        Release();
        (_array, _end) = (larger, begun);
    }
}

/// <summary>What is wrong with a client's message.</summary>
internal enum MessageFault
{
    /// <summary>Nothing.</summary>
    None = 0,

    /// <summary>It is longer than allowed.</summary>
    TooLong = 1,

    /// <summary>It is a text that is not UTF-8.</summary>
    InvalidText = 2,

    /// <summary>It is binary, and the endpoint is for text.</summary>
    Binary = 3,
}
