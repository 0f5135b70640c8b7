using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using BatchKit.Mqtt.Tests.Packets.Plain;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A broker on a real socket that acknowledges out of order and holds some acknowledgements back for very long. It checks packet ids, and keeps what is wrong with them.</summary>
internal sealed class HoldingBroker(MqttVersion version, ushort receiveMaximum, int holdEvery, int holdFor) : IDisposable
{
    private const int Connect = 1;
    private const int Publish = 3;

    private readonly TcpListener _listener = Listen();
    private readonly Random _random = new(1);
    private readonly HashSet<int> _inUse = [];
    private readonly List<int> _pending = [];
    private readonly Queue<(int PacketId, int Until)> _held = [];

    public Uri Address => new($"mqtt://127.0.0.1:{((IPEndPoint)_listener.LocalEndpoint).Port}");

    public int Count { get; private set; }

    /// <summary>The most that were unacknowledged at once.</summary>
    public int MostInUse { get; private set; }

    public int HighestId { get; private set; }

    /// <summary>What is wrong with ids or order; null when nothing is.</summary>
    public string? Fault { get; private set; }

    /// <summary>Serves one client until it has so many messages, and then what is held back is acknowledged too.</summary>
    public async Task ServeAsync(int messages)
    {
        using var client = await _listener.AcceptTcpClientAsync();
        client.NoDelay = true;
        var stream = client.GetStream();
        var bytes = new byte[64 * 1024];
        var filled = 0;
        while (Count < messages)
        {
            var read = await stream.ReadAsync(bytes.AsMemory(filled));
            if (read == 0)
                throw new EndOfStreamException($"The client closed after {Count} messages.");
            filled += read;
            var answer = new List<byte>();
            var taken = Take(bytes.AsSpan(0, filled), answer);
            bytes.AsSpan(taken, filled - taken).CopyTo(bytes);
            filled -= taken;
            if (Count == messages)
                ReleaseAll();
            Acknowledge(answer);
            await stream.WriteAsync(answer.ToArray());
        }

        if (await stream.ReadAsync(bytes) == 0)
            Fault ??= "The client closed without a goodbye.";
    }

    public void Dispose() => _listener.Dispose();

    private static TcpListener Listen()
    {
        var listener = new TcpListener(IPAddress.Loopback, port: 0);
        listener.Start();
        return listener;
    }

    // Lengths of one byte are enough for what this test sends; CONNECT's is.
    private int Take(ReadOnlySpan<byte> bytes, List<byte> answer)
    {
        var taken = 0;
        while (bytes.Length - taken >= 2 && bytes.Length - taken >= 2 + bytes[taken + 1])
        {
            var packet = PlainDecoder.Decode(bytes.Slice(taken, 2 + bytes[taken + 1]).ToArray(), version, isFromBroker: false);
            taken += 2 + bytes[taken + 1];
            if (packet is { Type: Connect })
                answer.AddRange(version == MqttVersion.V5 ? [0x20, 6, 0, 0, 3, 0x21, (byte)(receiveMaximum >> 8), (byte)receiveMaximum] : [0x20, 2, 0, 0]);
            else if (packet is { Type: Publish })
                Take(packet);
            else
                Fault ??= $"A packet of type {packet?.Type} came.";
        }

        return taken;
    }

    private void Take(PlainPacket publish)
    {
        var number = BinaryPrimitives.ReadInt32BigEndian(publish.Payload);
        if (publish.PacketId == 0 || !_inUse.Add(publish.PacketId))
            Fault ??= $"Message {number} has the packet id {publish.PacketId}, which is in use.";
        if (number != Count)
            Fault ??= $"Message {number} came where {Count} was due.";
        (MostInUse, HighestId) = (Math.Max(MostInUse, _inUse.Count), Math.Max(HighestId, publish.PacketId));
        if (Count++ % holdEvery == 0)
            _held.Enqueue((publish.PacketId, Count + holdFor));
        else
            _pending.Add(publish.PacketId);
        while (_held.TryPeek(out var held) && held.Until <= Count)
            _pending.Add(_held.Dequeue().PacketId);
    }

    private void ReleaseAll()
    {
        while (_held.TryDequeue(out var held))
            _pending.Add(held.PacketId);
    }

    private void Acknowledge(List<byte> answer)
    {
        _random.Shuffle(System.Runtime.InteropServices.CollectionsMarshal.AsSpan(_pending));
        foreach (var packetId in _pending)
        {
            _inUse.Remove(packetId);
            answer.AddRange([0x40, 2, (byte)(packetId >> 8), (byte)packetId]);
        }

        _pending.Clear();
    }
}
