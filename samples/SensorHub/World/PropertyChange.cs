namespace SensorHub.World;

/// <summary>One message: a property has a new value.</summary>
/// <param name="Handle">The property's topic.</param>
/// <param name="Header">Its content type and user properties.</param>
/// <param name="Payload">The value as JSON, valid until the next change.</param>
internal readonly record struct PropertyChange(OutputHandle Handle, MessageHeader Header, ReadOnlyMemory<byte> Payload);
