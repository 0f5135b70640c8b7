using System.Diagnostics.CodeAnalysis;
using MassTransit;
using MassTransit.Serialization;

namespace BatchKit.MassTransit;

/// <summary>One received frame as MassTransit sees it: a message that is a <see cref="BatchEnvelope"/> and nothing else.</summary>
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
