namespace BatchKit.Tests.Schedules;

/// <summary>What a seed decides before the first step: the buffer's settings, the ways out, and how unkind the world is.</summary>
internal sealed class Schedule
{
    public static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(100);

    private static readonly TimeSpan Never = TimeSpan.FromHours(1);

    public Schedule(int seed)
    {
        Random = new Random(seed);
        Actors = Random.Next(1, 5);
        Steps = Random.Next(40, 200);
        HasTwoRoutes = Chance(50);
        Partitions = [Random.Next(1, 4), Random.Next(1, 4)];
        SendsInline = [Chance(50), Chance(50)];
        StallsPercent = Random.Next(0, 90);
        FailsPercent = Chance(30) ? 0 : Random.Next(5, 60);
        MayRefuse = Chance(30);
        MayGiveUp = Chance(25);
        HeedsTokenPercent = Random.Next(0, 101);
        ReentersPercent = Chance(40) ? 30 : 0;
        Ending = Chance(60) ? Ending.Settle : Chance(50) ? Ending.StopWhileWell : Ending.StopWhileDead;
        Options = MakeOptions();

        // No names: their hash codes are drawn anew for each process, and with them partitions and the order of a flush of all; a seed could not be replayed.
        Handles = [.. Enumerable.Range(1, 6).Select(number => OutputHandle.Connection(node: 1, number))];
    }

    public Random Random { get; }

    public int Actors { get; }

    public int Steps { get; }

    public bool HasTwoRoutes { get; }

    public int[] Partitions { get; }

    public bool[] SendsInline { get; }

    public int StallsPercent { get; }

    public int FailsPercent { get; }

    public bool MayRefuse { get; }

    public bool MayGiveUp { get; }

    public int HeedsTokenPercent { get; }

    public int ReentersPercent { get; }

    public Ending Ending { get; }

    public OutputBufferOptions Options { get; }

    public OutputHandle[] Handles { get; }

    /// <summary>True when every message must arrive.</summary>
    public bool IsLossless =>
        !MayRefuse && !MayGiveUp && Options.Overflow != OverflowPolicy.DropOldest && Ending != Ending.StopWhileDead;

    /// <summary>True when a write that finds no room drops a message in silence, counted.</summary>
    public bool Drops => Options.Overflow is OverflowPolicy.DropNewest or OverflowPolicy.DropOldest;

    public bool Chance(int percent) => Random.Next(100) < percent;

    public int Pick(int count) => Random.Next(count);

    public T PickOne<T>(IReadOnlyList<T> items) => items[Random.Next(items.Count)];

    /// <summary>One bit for each route that a handle takes: the one, the other or both.</summary>
    public int RoutesOf(int handle) => HasTwoRoutes ? (handle % 3) + 1 : 1;

    public SendEnding NextEnding()
    {
        if (!Chance(FailsPercent))
            return SendEnding.Succeeds;
        return PickOne([SendEnding.Fails, SendEnding.LosesAcknowledgement, SendEnding.BreaksOff, SendEnding.Answers, SendEnding.Answers]);
    }

    public override string ToString() =>
        $"{Actors} actors, {Steps} steps, {(HasTwoRoutes ? "two routes" : "one route")} of {Partitions[0]} and {Partitions[1]} partitions, "
        + $"inline {SendsInline[0]} {SendsInline[1]}, {StallsPercent} % stall, {FailsPercent} % fail, {Options.Overflow} at {Options.MaxBufferedBytes} B, "
        + $"batches {Options.MaxBatchBytes} B {Options.MaxBatchMessages}, sends {Options.MaxSendBytes} B {Options.MaxSendBatches}, "
        + $"linger {Options.Linger.TotalMilliseconds} ms, refuses {MayRefuse}, gives up {MayGiveUp}, {Ending}";

    private OutputBufferOptions MakeOptions() => new()
    {
        Node = 0,
        MaxBatchBytes = PickOne([256, 256, 64 * 1024]),
        MaxBatchMessages = PickOne([1, 3, 10_000]),
        MaxMessageBytes = 128,
        MaxBufferedBytes = PickOne([1024, 1024, 2048, 64 * 1024]),
        Overflow = (OverflowPolicy)Random.Next(4),
        Linger = PickOne([TimeSpan.Zero, TimeSpan.Zero, Tick / 2]),
        MaxSendBytes = PickOne([256, 512, 1024 * 1024]),
        MaxSendBatches = PickOne([1, 3, 4096]),
        SendTimeout = 10 * Tick,
        DeliveryTimeout = MayGiveUp ? 30 * Tick : Never,
        RetryDelay = Tick / 2,
        MaxRetryDelay = Tick,
        MaxScopeAge = PickOne([16 * Tick, Never]),
        HandleIdleTimeout = PickOne([4 * Tick, 16 * Tick]),
        MaxIdleHandles = PickOne([0, 2, 65_536]),
        DrainTimeout = 50 * Tick,
    };
}
