using System.Text;

namespace BatchKit.TransportSpecification.Support;

/// <summary>A message as it arrived, copied.</summary>
/// <param name="Handle">Where it goes.</param>
/// <param name="Payload">Its bytes.</param>
/// <param name="Header">What it says about itself; null for a plain one.</param>
public sealed record CollectedMessage(OutputHandle Handle, byte[] Payload, MessageHeader? Header)
{
    /// <summary>Its bytes as UTF-8.</summary>
    public string Text => Encoding.UTF8.GetString(Payload);

    /// <summary>What it is for.</summary>
    public MessageKind Kind => Header?.Kind ?? MessageKind.Output;
}
