using System.Text;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A plain TCP client's side: the bytes are the text.</summary>
internal sealed class RawDecoder : IClientDecoder
{
    public bool IsCut => false;

    public void Decode(ReadOnlySpan<byte> bytes, List<byte> text, List<byte> answer) => text.AddRange(bytes);

    public byte[] Encode(string line) => Encoding.UTF8.GetBytes(line + "\n");
}
