namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>A message as a subscriber got it.</summary>
internal sealed record ReceivedMessage(string Topic, string Text, string[] Properties, string? ContentType, bool Retain, uint ExpirySeconds);
