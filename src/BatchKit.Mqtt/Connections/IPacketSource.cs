namespace BatchKit.Mqtt.Connections;

/// <summary>Has packets to write whenever a connection can take some. Called by one thread at a time.</summary>
internal interface IPacketSource
{
    /// <summary>Writes as many whole packets as there are and as fit.</summary>
    /// <param name="buffer">Where they go. Ask it for room for one packet larger than what is left only when it is empty.</param>
    void Fill(PacketBuffer buffer);

    /// <summary>What the last <see cref="Fill"/> wrote has been handed to the network.</summary>
    void CompleteWrite();
}
