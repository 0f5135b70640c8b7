using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Transport.Modelled;

/// <summary>What one client must have: its groups, and the bytes on its wire.</summary>
internal sealed class ModelClient(FakeClient client)
{
    public FakeClient Client { get; } = client;

    public HashSet<int> Groups { get; } = [];

    public List<byte> Written { get; } = [];

    /// <summary>Out of the table: a batch for it is refused.</summary>
    public bool IsGone { get; set; }

    /// <summary>Told to close: it joins nothing and gets nothing more.</summary>
    public bool IsClosed { get; set; }

    public long Sent { get; private set; }

    public long Dropped { get; private set; }

    public void Get(byte[] text, bool isBehindClose)
    {
        if (IsClosed || isBehindClose)
        {
            Dropped++;
            return;
        }

        Sent++;
        if (Client.Connection.Protocol == ClientProtocol.WebSocket)
            Written.AddRange(Header(text.Length));
        Written.AddRange(text);
    }

    public void Close()
    {
        if (!IsClosed && Client.Connection.Protocol == ClientProtocol.WebSocket)
            Written.AddRange([0x88, 2, 0x03, 0xE8]);
        IsClosed = true;
    }

    private static byte[] Header(int length) => length < 126 ? [0x81, (byte)length] : [0x81, 126, (byte)(length >> 8), (byte)length];
}
