using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>A wire that takes now all, now some, now nothing, as a random generator says. Its queue must never call it twice at a time.</summary>
internal sealed class FitfulWire(Random random) : IWire
{
    private const int MaxPauses = 5;

    private readonly List<byte> _written = [];
    private int _calls;

    public byte[] Written => [.. _written];

    public bool IsFinished { get; private set; }

    /// <summary>Until this has completed it takes nothing.</summary>
    public Task HeldUntil { get; set; } = Task.CompletedTask;

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        Enter();
        var taken = random.Next(3) switch
        {
            _ when !HeldUntil.IsCompleted => 0,
            0 => 0,
            1 => random.Next(bytes.Length + 1),
            _ => bytes.Length,
        };
        _written.AddRange(bytes[..taken]);
        Leave();
        return taken;
    }

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        Enter();
        await HeldUntil;
        while (!bytes.IsEmpty)
        {
            var taken = random.Next(bytes.Length) + 1;
            for (var pause = random.Next(MaxPauses); pause > 0; pause--)
                await Task.Yield();
            _written.AddRange(bytes.Span[..taken]);
            bytes = bytes[taken..];
        }

        Leave();
    }

    public ValueTask FinishAsync()
    {
        IsFinished = true;
        return default;
    }

    public void Abort()
    {
    }

    private void Enter() => Assert.Equal(1, Interlocked.Increment(ref _calls));

    private void Leave() => Interlocked.Decrement(ref _calls);
}
