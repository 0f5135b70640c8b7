using BatchKit.Mqtt.Tests.Packets.Plain;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>Breaks packets: flips, sets, inserts, doubles and takes out bytes, cuts them short. Mostly what follows the header, which then says the right length again.</summary>
internal sealed class PacketMutator(Random random)
{
    private static readonly byte[][] Telling =
    [
        [0x00], [0x00, 0x00], [0xFF, 0xFF], [0x00, 0x01], [0x7F], [0x80, 0x00], [0x80, 0x80, 0x80, 0x80, 0x01], [0xFF, 0xFF, 0xFF, 0x7F], [0xED, 0xA0, 0x80], [0xC0, 0x80], [(byte)'+'],
        [0x26, 0x00, 0x01, 0x61, 0x00, 0x01, 0x62], [0x23, 0x00, 0x01], [0x1F, 0x00, 0x00], [0x03, 0x00, 0x01, 0x61], [0x0B, 0x80, 0x01], [0x21, 0x00, 0x14],
    ];

    public byte[] Mutate(byte[] packet)
    {
        var cursor = new PlainCursor(packet, 1, packet.Length);
        var headerBytes = packet.Length - Math.Max(0, cursor.VariableBytes());
        if (random.Next(4) == 0)
            return Edit([.. packet]);
        var first = random.Next(8) == 0 ? random.Next(256) : packet[0];
        return PlainEncoder.Packet(first / 16, first % 16, Edit([.. packet.AsSpan(headerBytes)]));
    }

    private byte[] Edit(List<byte> bytes)
    {
        for (var edits = random.Next(1, 4); edits > 0 && bytes.Count > 0; edits--)
            EditOnce(bytes);
        return [.. bytes];
    }

    private void EditOnce(List<byte> bytes)
    {
        // Half of the edits hit the first bytes, where most of the lengths and properties are.
        var place = random.Next(random.Next(2) == 0 ? bytes.Count : Math.Min(bytes.Count, 24));
        var count = Math.Min(random.Next(1, 9), bytes.Count - place);
        switch (random.Next(7))
        {
            case 0:
                bytes[place] ^= (byte)(1 << random.Next(8));
                break;
            case 1:
                bytes[place] = (byte)random.Next(256);
                break;
            case 2:
                bytes[place] += (byte)(random.Next(2) == 0 ? 1 : -1);
                break;
            case 3:
                bytes.RemoveRange(place, count);
                break;
            case 4:
                bytes.RemoveRange(place, bytes.Count - place);
                break;
            case 5:
                bytes.InsertRange(place, bytes.GetRange(place, count));
                break;
            default:
                bytes.InsertRange(place, Telling[random.Next(Telling.Length)]);
                break;
        }
    }
}
