using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Has the packets that a test gave it, and notices when two threads call it at once.</summary>
internal sealed class ScriptedSource : IPacketSource
{
    private readonly Lock _lock = new();
    private readonly Queue<byte[]> _packets = new();
    private int _callers;

    public int Completed { get; private set; }

    public int Filled { get; private set; }

    public bool WasCalledTwiceAtOnce { get; private set; }

    public Action OnFill { get; set; } = static () => { };

    public void Add(byte[] packet)
    {
        lock (_lock)
            _packets.Enqueue(packet);
    }

    public void Fill(PacketBuffer buffer)
    {
        WasCalledTwiceAtOnce |= Interlocked.Increment(ref _callers) > 1;
        Filled++;
        OnFill();
        lock (_lock)
        {
            while (_packets.TryPeek(out var packet) && buffer.TryReserve(packet.Length, out var memory))
            {
                packet.CopyTo(memory);
                buffer.Advance(packet.Length);
                _packets.Dequeue();
            }
        }

        Interlocked.Decrement(ref _callers);
    }

    public void CompleteWrite() => Completed++;
}
