using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using BatchKit;
using BatchKit.Broadcast;

using var listener = new TcpListener(IPAddress.Loopback, 0);
listener.Start();
using var client = new TcpClient();
await client.ConnectAsync((IPEndPoint)listener.LocalEndpoint);
using var accepted = await listener.AcceptTcpClientAsync();

await using var transport = new BroadcastTransport();
await using var output = new OutputBuffer(transport);
await using var player = transport.Attach(accepted.GetStream());
var map = OutputHandle.Named("map");
output.Write(player.Handle, ControlMessage.JoinGroup("map"));
await using (output.BeginBufferingScope(map))
    for (var monster = 1; monster <= 1000; monster++)
        output.Write(map, Packet.MoveBytes, new Move(monster, X: monster % 40, Y: monster / 40), Packet.Write);

var received = new byte[1000 * Packet.MoveBytes];
await client.GetStream().ReadExactlyAsync(received);
Console.WriteLine($"1000 packets have arrived; the last one moves monster {BinaryPrimitives.ReadInt32LittleEndian(received.AsSpan(^8))}.");

internal readonly record struct Move(int Monster, int X, int Y);

internal static class Packet
{
    public const int MoveBytes = 8;

    // Writes into the batch itself.
    public static int Write(Span<byte> destination, Move move)
    {
        BinaryPrimitives.WriteInt32LittleEndian(destination, move.Monster);
        BinaryPrimitives.WriteInt16LittleEndian(destination[4..], (short)move.X);
        BinaryPrimitives.WriteInt16LittleEndian(destination[6..], (short)move.Y);
        return MoveBytes;
    }
}
