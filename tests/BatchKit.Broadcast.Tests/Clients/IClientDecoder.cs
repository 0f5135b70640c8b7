namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>Makes text of what a server sent, for one client, and says what the protocol wants answered.</summary>
internal interface IClientDecoder
{
    /// <summary>True when a frame or a command is cut in its middle by what came so far.</summary>
    bool IsCut { get; }

    /// <summary>Decodes the next bytes.</summary>
    /// <param name="bytes">As they came, cut anywhere.</param>
    /// <param name="text">Gets the text.</param>
    /// <param name="answer">Gets what is to be sent back.</param>
    void Decode(ReadOnlySpan<byte> bytes, List<byte> text, List<byte> answer);

    byte[] Encode(string line);
}
