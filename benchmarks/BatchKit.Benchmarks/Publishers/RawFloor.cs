using System.Buffers.Binary;
using BatchKit.Benchmarks.RawMqtt;

namespace BatchKit.Benchmarks.Publishers;

/// <summary>The floor: 1000 packets that were encoded once lie one behind the other and are written raw, as many at once as the window has room for; what comes back is counted.</summary>
internal sealed class RawFloor : IPacedWay
{
    private const int Packets = 1000;

    private readonly RawConnection _connection;
    private readonly byte[] _packets;
    private readonly byte[] _input = new byte[64 * 1024];
    private readonly int _packetBytes;
    private readonly int _idAt;
    private readonly int _payloadAt;
    private readonly bool _isAcknowledged;
    private readonly int _window;
    private int _next;
    private ushort _id;
    private int _left;

    public RawFloor(PublishTarget target)
    {
        var shape = target.Shape;
        _connection = new RawConnection(target.Port);
        _isAcknowledged = shape.Quality > 0;
        _window = Math.Min(target.Window, _connection.ReceiveMaximum);
        var topic = PublishShape.TopicAt(0);
        var packet = RawPackets.PublishOf(shape, topic, PublishShape.MakePayload());
        _packetBytes = packet.Length;
        _packets = [.. Enumerable.Repeat(packet, Packets).SelectMany(one => one)];
        _ = RawPackets.Measure(packet, out var bodyAt);
        _idAt = bodyAt + 2 + topic.Length;
        _payloadAt = packet.Length - PublishShape.PayloadBytes;
    }

    public Task PublishAsync(int messages)
    {
        if (_isAcknowledged)
            PublishInWindow(messages);
        else
            Write(messages);
        return Task.CompletedTask;
    }

    public void Start(int messages, long dueAt)
    {
        for (var index = 0; index < messages; index++)
            BinaryPrimitives.WriteInt64LittleEndian(_packets.AsSpan(((_next + index) % Packets * _packetBytes) + _payloadAt), dueAt);
        _ = PublishAsync(messages);
    }

    public Task FinishAsync() => Task.CompletedTask;

    public ValueTask DisposeAsync()
    {
        _connection.Dispose();
        return default;
    }

    private void PublishInWindow(int messages)
    {
        var (unsent, underWay) = (messages, 0);
        while (unsent > 0 || underWay > 0)
        {
            var room = Math.Min(unsent, _window - underWay);
            Write(room);
            unsent -= room;
            underWay += room - ReadAcknowledgements();
        }
    }

    private void Write(int messages)
    {
        while (messages > 0)
        {
            var count = Math.Min(messages, Packets - _next);
            if (_isAcknowledged)
                Number(count);
            _connection.Write(_packets.AsSpan(_next * _packetBytes, count * _packetBytes));
            _next = (_next + count) % Packets;
            messages -= count;
        }
    }

    private void Number(int count)
    {
        for (var index = _next; index < _next + count; index++)
        {
            _id = _id == ushort.MaxValue ? (ushort)1 : (ushort)(_id + 1);
            BinaryPrimitives.WriteUInt16BigEndian(_packets.AsSpan((index * _packetBytes) + _idAt), _id);
        }
    }

    private int ReadAcknowledgements()
    {
        var length = _left + _connection.Read(_input.AsSpan(_left));
        var (taken, count) = (0, 0);
        while (RawPackets.Measure(_input.AsSpan(taken, length - taken), out _) is > 0 and var packetBytes)
        {
            count += _input[taken] >> 4 == RawPackets.Puback ? 1 : 0;
            taken += packetBytes;
        }

        _left = length - taken;
        _input.AsSpan(taken, _left).CopyTo(_input);
        return count;
    }
}
