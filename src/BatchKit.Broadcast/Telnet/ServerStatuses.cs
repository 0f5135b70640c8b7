using System.Text;

namespace BatchKit.Broadcast.Telnet;

/// <summary>What the server tells about itself (MSSP, the MUD Server Status Protocol).</summary>
internal static class ServerStatuses
{
    private const byte Variable = 1;
    private const byte Value = 2;

    /// <summary>The subnegotiation with all names and values. Control characters, which would end a name or a value, are left out.</summary>
    public static ReadOnlySpan<byte> Frame(IEnumerable<KeyValuePair<string, string>> status)
    {
        var bytes = new List<byte> { TelnetCode.Interpret, TelnetCode.Subnegotiation, TelnetCode.ServerStatusOption };
        string? before = null;
        foreach (var (name, value) in status)
        {
            if (name != before)
                bytes.AddRange([Variable, .. ToBytes(name)]);
            bytes.AddRange([Value, .. ToBytes(value)]);
            before = name;
        }

        return (byte[])[.. bytes, TelnetCode.Interpret, TelnetCode.SubnegotiationEnd];
    }

    // UTF-8 has no byte of 255, so nothing needs to be doubled.
    private static byte[] ToBytes(string text) => Encoding.UTF8.GetBytes(string.Concat(text.Where(static letter => !char.IsControl(letter))));
}
