using System.Net.Mime;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Writes a frame as the message's whole body: no JSON, no base64, and no header beyond the content type.</summary>
internal sealed class FrameSerializer : IMessageSerializer
{
    public static readonly ContentType FrameContentType = new("application/vnd.batchkit.frame");

    public static readonly FrameSerializer Shared = new();

    public ContentType ContentType => FrameContentType;

    // A transport asks for an array (MessageBody.GetBytes), so the frame is one from the start.
    public MessageBody GetMessageBody<T>(SendContext<T> context)
        where T : class =>
        context.Message is BatchEnvelope envelope
            ? new BytesMessageBody(envelope.Bytes)
            : throw new NotSupportedException($"Only {nameof(BatchEnvelope)} travels as {FrameContentType}, not {typeof(T)}.");
}
