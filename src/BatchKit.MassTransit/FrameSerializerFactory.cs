using System.Net.Mime;
using MassTransit;

namespace BatchKit.MassTransit;

/// <summary>Gives a receive endpoint the frame's serializer and deserializer.</summary>
internal sealed class FrameSerializerFactory : ISerializerFactory
{
    public ContentType ContentType => FrameSerializer.FrameContentType;

    public IMessageSerializer CreateSerializer() => FrameSerializer.Shared;

    public IMessageDeserializer CreateDeserializer() => FrameDeserializer.Shared;
}
