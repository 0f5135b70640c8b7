using System.Diagnostics.CodeAnalysis;
using System.Net.Mime;
using System.Text;
using BatchKit.RabbitMQ;
using MassTransit;
using MassTransit.Serialization;

namespace BatchKit.MassTransit;

/// <summary>The message that BatchKit sends over a MassTransit bus: one frame, which contains batches of one send for one destination.</summary>
/// <remarks>
/// Its body on the broker is the frame itself, with the content type <c>application/vnd.batchkit.frame</c> and without MassTransit's JSON envelope. Only
/// <see cref="MassTransitReceiver"/> consumes it; an application's own consumers never see it.
/// </remarks>
public sealed class BatchEnvelope
{
    internal BatchEnvelope(byte[] frame) => Bytes = frame;

    /// <summary>The frame's bytes. They are valid as long as the message exists.</summary>
    public ReadOnlyMemory<byte> Frame => Bytes;

    internal byte[] Bytes { get; }
}

/// <summary>Writes a frame as the whole body of the message: no JSON and no base64.</summary>
internal sealed class FrameSerializer : IMessageSerializer
{
    public static readonly ContentType FrameContentType = new(RabbitMqFrameProperties.ContentType);

    public static readonly FrameSerializer Shared = new();

    public ContentType ContentType => FrameContentType;

    // Transports ask for an array (MessageBody.GetBytes), so a frame is encoded into one.
    public MessageBody GetMessageBody<T>(SendContext<T> context)
        where T : class =>
        context.Message is BatchEnvelope envelope
            ? new BytesMessageBody(envelope.Bytes)
            : throw new NotSupportedException($"Only {nameof(BatchEnvelope)} travels as {FrameContentType}, not {typeof(T)}.");
}

/// <summary>Reads every body as a frame. <see cref="MassTransitReceiver"/> rejects, counts and logs a body that is not one.</summary>
internal sealed class FrameDeserializer : IMessageDeserializer
{
    public static readonly FrameDeserializer Shared = new();

    public ContentType ContentType => FrameSerializer.FrameContentType;

    public ConsumeContext Deserialize(ReceiveContext receiveContext) =>
        new BodyConsumeContext(receiveContext, Deserialize(receiveContext.Body, receiveContext.TransportHeaders, receiveContext.InputAddress));

    public SerializerContext Deserialize(MessageBody body, Headers headers, Uri? destinationAddress = null) =>
        new FrameSerializerContext(
            new RawMessageContext(headers, destinationAddress, default), new BatchEnvelope(body.GetBytes()));

    public MessageBody GetMessageBody(string text) => new BytesMessageBody(Encoding.UTF8.GetBytes(text));

    public void Probe(ProbeContext context) => context.CreateScope("batchkit").Add("contentType", ContentType.MediaType);
}

/// <summary>A received frame as MassTransit sees it: a message of the type <see cref="BatchEnvelope"/> only.</summary>
internal sealed class FrameSerializerContext(MessageContext context, BatchEnvelope envelope)
    : BaseSerializerContext(SystemTextJsonMessageSerializer.Instance, context, MessageTypes)
{
    private static readonly string[] MessageTypes = [MessageUrn.ForTypeString<BatchEnvelope>()];

    public override bool IsSupportedMessageType<T>() => typeof(T) == typeof(BatchEnvelope);

    public override bool IsSupportedMessageType(Type messageType) => messageType == typeof(BatchEnvelope);

    public override bool TryGetMessage<T>(out T? message)
        where T : class
    {
        message = envelope as T;
        return message is not null;
    }

    public override bool TryGetMessage(Type messageType, [NotNullWhen(true)] out object? message)
    {
        message = messageType == typeof(BatchEnvelope) ? envelope : null;
        return message is not null;
    }

    public override IMessageSerializer GetMessageSerializer() => FrameSerializer.Shared;

    public override IMessageSerializer GetMessageSerializer<T>(MessageEnvelope envelope, T message) => FrameSerializer.Shared;

    public override IMessageSerializer GetMessageSerializer(object message, string[] messageTypes) => FrameSerializer.Shared;

    public override Dictionary<string, object> ToDictionary<T>(T? message)
        where T : class => [];
}

/// <summary>Provides a receive endpoint with the serializer and deserializer of frames.</summary>
internal sealed class FrameSerializerFactory : ISerializerFactory
{
    public ContentType ContentType => FrameSerializer.FrameContentType;

    public IMessageSerializer CreateSerializer() => FrameSerializer.Shared;

    public IMessageDeserializer CreateDeserializer() => FrameDeserializer.Shared;
}
