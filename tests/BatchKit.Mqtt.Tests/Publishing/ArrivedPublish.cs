namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A PUBLISH as it arrived.</summary>
internal sealed record ArrivedPublish(string Topic, string Text, ushort PacketId, bool IsDuplicate);
