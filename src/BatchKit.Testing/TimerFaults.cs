namespace BatchKit.Testing;

/// <summary>How the timers of a <see cref="ManualTimeProvider"/> misbehave, as .NET's timers may on a busy machine.</summary>
/// <remarks>
/// Without a <see cref="Seed"/> every timer has exactly these faults. With one, each firing draws its own: as much as stated, less, or none. The same seed and the
/// same calls give the same faults.
/// </remarks>
public sealed record TimerFaults
{
    /// <summary>No faults: each timer fires once, exactly when it is due.</summary>
    public static TimerFaults None { get; } = new();

    /// <summary>
    /// How early a timer fires; zero by default, at most 3 ms, which was measured for .NET's timers. A timer that is armed for less than twice that time fires
    /// after half its time instead, so that code that arms it again for the rest comes to an end.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The time is negative or above 3 ms.</exception>
    public TimeSpan Early
    {
        get;
        init
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, TimeSpan.Zero);
            ArgumentOutOfRangeException.ThrowIfGreaterThan(value, TimeSpan.FromMilliseconds(3));
            field = value;
        }
    }

    /// <summary>How late a timer fires; zero by default. With a seed, a timer is either early or late.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
    public TimeSpan Late
    {
        get;
        init
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, TimeSpan.Zero);
            field = value;
        }
    }

    /// <summary>Whether the callback is called twice for one firing, as when it was under way already while the timer was changed; false by default.</summary>
    public bool Twice { get; init; }

    /// <summary>
    /// Whether timers that fall due in one <see cref="ManualTimeProvider.Advance"/> fire out of order, after the clock has moved all the way; false by default.
    /// Without a seed the last one fires first.
    /// </summary>
    public bool OutOfOrder { get; init; }

    /// <summary>The seed of the random faults; null by default: every timer then has exactly the stated faults.</summary>
    public int? Seed { get; init; }

    /// <summary>All faults at once, drawn at random: up to 3 ms early, up to 20 ms late, some twice, and out of order.</summary>
    /// <param name="seed">The seed of the random faults. Put it in the test's message, so that a failure can be repeated.</param>
    public static TimerFaults Random(int seed) =>
        new() { Early = TimeSpan.FromMilliseconds(3), Late = TimeSpan.FromMilliseconds(20), Twice = true, OutOfOrder = true, Seed = seed };

    /// <summary>How far from its due time a timer fires when it is armed for this long.</summary>
    internal long DrawOffsetTicks(long armedTicks, Random? random)
    {
        var early = Math.Min(Early.Ticks, armedTicks / 2);
        if (random is null)
            return Late.Ticks - early;
        return random.Next(3) switch
        {
            0 => -random.NextInt64(early + 1),
            1 => random.NextInt64(Late.Ticks + 1),
            _ => 0,
        };
    }

    /// <summary>How often a timer that fires calls back.</summary>
    internal int DrawCalls(Random? random) => Twice && (random is null || random.Next(2) == 0) ? 2 : 1;
}
