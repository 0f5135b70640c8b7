using System.Net;
using System.Net.Sockets;
using System.Text;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>Makers of PROXY headers, as a proxy sends them.</summary>
internal static class ProxyHeaders
{
    public static byte[] Local => Binary(command: 0x20, family: 0, []);

    public static byte[] Make(int version, IPEndPoint client) => version == 1 ? Line(client) : Binary(client);

    public static byte[] Line(IPEndPoint client)
    {
        var isIPv4 = client.AddressFamily == AddressFamily.InterNetwork;
        return Encoding.ASCII.GetBytes($"PROXY {(isIPv4 ? "TCP4" : "TCP6")} {client.Address} {(isIPv4 ? "192.0.2.1" : "2001:db8::1")} {client.Port} 443\r\n");
    }

    public static byte[] Binary(IPEndPoint client, params ReadOnlySpan<byte> fields)
    {
        var address = client.Address.GetAddressBytes();
        byte[] port = [(byte)(client.Port >> 8), (byte)client.Port];
        return Binary(command: 0x21, address.Length == 4 ? (byte)0x11 : (byte)0x21, [.. address, .. address, .. port, 1, 187, .. fields]);
    }

    public static byte[] Binary(byte command, byte family, ReadOnlySpan<byte> body) =>
        [.. "\r\n\r\n\0\r\nQUIT\n"u8, command, family, (byte)(body.Length >> 8), (byte)body.Length, .. body];
}
