using System.Net.WebSockets;
using BatchKit.Broadcast.Receiving;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Reads a client's messages by the framework's WebSocket, and answers its close frame.</summary>
internal sealed class WebSocketInbound(
    ClientConnection connection,
    WebSocket socket,
    UpgradedStream stream,
    UpgradedWire wire,
    OutputWay way,
    UpgradedEnding ending,
    BroadcastOptions options,
    ILogger logger) : IInbound
{
    private readonly MessageAssembly _assembly = new(options.MaxRecordBytes);

    public async Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        ending.NoteInput(isRead: true);
        stream.Attach(connection, delivery, way);
        try
        {
            var end = await ReceiveAsync(delivery, cancellationToken).ConfigureAwait(false);
            _assembly.Release();
            way.ChooseStream("its input ended first");
            if (end == InboundEnd.ProtocolError)
                await EndBrokenAsync(cancellationToken).ConfigureAwait(false);
            return end;
        }
        finally
        {
            way.ChooseStream("its handler failed");
            ending.NoteInput(isRead: false);
        }
    }

    private async Task<InboundEnd> ReceiveAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        while (true)
        {
            ValueWebSocketReceiveResult received;
            var receiving = socket.ReceiveAsync(_assembly.GetRoom(), cancellationToken);
            if (!receiving.IsCompleted)
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
            try
            {
                received = await receiving.ConfigureAwait(false);
            }
            catch (Exception failure) when (failure is WebSocketException or OperationCanceledException or IOException)
            {
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
                return EndAfter(failure);
            }

            if (received.MessageType == WebSocketMessageType.Close)
            {
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
                connection.Output.Complete(WebSocketClosings.Answer(socket.CloseStatus));
                return InboundEnd.Closed;
            }

            var kind = received.MessageType == WebSocketMessageType.Text ? RecordKind.Data : RecordKind.Binary;
            var fault = _assembly.Add(received.Count, received.EndOfMessage, kind);
            if (fault != MessageFault.None || _assembly.IsFull)
                await DeliverAsync(delivery, cancellationToken).ConfigureAwait(false);
            if (fault != MessageFault.None)
                return EndFaulty(fault);
        }
    }

    private async Task EndBrokenAsync(CancellationToken cancellationToken)
    {
        connection.Close(DisconnectReason.ProtocolError);
        await connection.Output.Ended.ConfigureAwait(false);
        await wire.EndSendingAsync().ConfigureAwait(false);
        await DiscardAsync(cancellationToken).ConfigureAwait(false);
    }

    private async ValueTask DeliverAsync(InboundDelivery delivery, CancellationToken cancellationToken)
    {
        if (_assembly.Records.IsEmpty)
            return;
        await delivery.DeliverAsync(_assembly.Records, cancellationToken).ConfigureAwait(false);
        _assembly.Clear();
    }

    private InboundEnd EndAfter(Exception failure)
    {
        if (!stream.HasClosed)
            return InboundEnd.Lost;
        Log.ProtocolBroken(logger, connection, failure.Message);
        return InboundEnd.ProtocolError;
    }

    private InboundEnd EndFaulty(MessageFault fault)
    {
        var isTooLong = fault == MessageFault.TooLong;
        Log.ProtocolBroken(logger, connection, isTooLong ? $"a message of more than {options.MaxRecordBytes} bytes" : "a text that is no UTF-8");
        connection.Output.Complete(isTooLong ? WebSocketClosings.TooBig : WebSocketClosings.InvalidText);
        return InboundEnd.ProtocolError;
    }

    /// <summary>Reads on to the client's end: closing with input unread would reset the connection, and the client might lose the close frame.</summary>
    private async Task DiscardAsync(CancellationToken cancellationToken)
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
            // It is gone, or has had its time: either is an end.
        }
    }
}
