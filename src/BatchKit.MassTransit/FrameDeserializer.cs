using System.Net.Mime;
using System.Text;
using MassTransit;
using MassTransit.Serialization;

namespace BatchKit.MassTransit;

/// <summary>Takes any body for a frame. What is none is refused, counted and logged where it is decoded.</summary>
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
