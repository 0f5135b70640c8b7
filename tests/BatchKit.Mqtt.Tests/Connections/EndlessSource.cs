using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>Fills every buffer, so that a peer that does not read has its connection stuck in a write.</summary>
internal sealed class EndlessSource : IPacketSource
{
    private int _fills;
    private int _completed;

    public int Fills => Volatile.Read(ref _fills);

    public void Fill(PacketBuffer buffer)
    {
        Interlocked.Increment(ref _fills);
        while (buffer.TryReserve(1024, out _))
            buffer.Advance(1024);
    }

    public void CompleteWrite() => Interlocked.Increment(ref _completed);

    /// <summary>Waits until a write is under way that does not move for a second.</summary>
    public async Task WaitUntilStuckAsync()
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        var last = -1;
        for (var quiet = 0; quiet < 5; quiet++)
        {
            if (Fills != last || Volatile.Read(ref _completed) != last - 1)
                quiet = 0;
            last = Fills;
            await Task.Delay(200, deadline.Token);
        }
    }
}
