namespace BatchKit.Tests.Schedules;

/// <summary>What a seed decides before the first step: the buffer's settings, its routes, and how hostile the world is.</summary>
internal sealed class Schedule
{
    public static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(100);

    private static readonly TimeSpan Never = TimeSpan.FromHours(1);

    // A name's hash code differs from process to process, and decides its partition and when a flush of all comes to it. Names are chosen whose hash codes have fixed
    // remainders, by the numbers of partitions and by the 37 buckets of a small concurrent dictionary, so that a seed can be replayed.
    /// <summary>How many nodes the connections are on; they are numbered from one.</summary>
    public const int Nodes = 2;

    private static readonly OutputHandle[] Groups = [Group(remainder: 77), Group(remainder: 140)];

    public Schedule(int seed)
    {
        Random = new Random(seed);
        Actors = Random.Next(1, 5);
        Steps = Random.Next(40, 200);
        HasTwoRoutes = Chance(50);
        var keepsOrder = Chance(50);
        Partitions = keepsOrder ? [1, 1] : [Random.Next(1, 4), Random.Next(1, 4)];
        AnswersInOrder = keepsOrder && Chance(75);
        SendsInline = [Chance(50), Chance(50)];
        StallsPercent = Random.Next(0, 90);
        FailsPercent = Chance(30) ? 0 : Random.Next(5, 60);
        MayRefuse = Chance(30);
        MayGiveUp = Chance(25);
        HeedsTokenPercent = Random.Next(0, 101);
        ReentersPercent = Chance(40) ? 30 : 0;
        BlocksPercent = Chance(20) ? 10 : 0;
        HasHostileClock = Chance(40);
        HasHostileObservers = Chance(30);
        HasLimitedScopes = Chance(50);
        EncoderFaultsPercent = Chance(30) ? 40 : 0;
        LatestPercent = Chance(50) ? 50 : 0;
        AwayRoute = Chance(30) ? Pick(HasTwoRoutes ? 2 : 1) : null;
        Ending = Chance(60) ? Ending.Settle : Chance(50) ? Ending.StopWhileWell : Ending.StopWhileDead;
        Options = CreateOptions();
        GreedyHandle = Chance(30) ? Pick(4 + Groups.Length) : null;
        ExpiringPercent = Chance(30) ? 30 : 0;
        Handles = [.. Enumerable.Range(1, 4).Select(number => OutputHandle.Connection(node: 1 + (number % Nodes), number)), .. Groups];
        BusyPercent = Chance(50) ? Random.Next(5, 60) : 0;
    }

    public Random Random { get; }

    public int Actors { get; }

    public int Steps { get; }

    public bool HasTwoRoutes { get; }

    public int[] Partitions { get; }

    /// <summary>True when the next hop, like a log or a socket, takes nothing behind a batch that it did not take. With one partition a route, order then holds across handles.</summary>
    public bool AnswersInOrder { get; }

    public bool[] SendsInline { get; }

    public int StallsPercent { get; }

    public int FailsPercent { get; }

    public bool MayRefuse { get; }

    public bool MayGiveUp { get; }

    public int HeedsTokenPercent { get; }

    public int ReentersPercent { get; }

    /// <summary>How often time passes before a send returns its task.</summary>
    public int BlocksPercent { get; }

    /// <summary>True when timers fire early, late, twice and out of order, and the wall clock jumps or stands still.</summary>
    public bool HasHostileClock { get; }

    /// <summary>True when loggers, listeners and handlers of cancellation throw.</summary>
    public bool HasHostileObservers { get; }

    public bool HasLimitedScopes { get; }

    public int EncoderFaultsPercent { get; }

    /// <summary>How many of the writes are of latest values.</summary>
    public int LatestPercent { get; }

    /// <summary>How many of the writes have a time to live.</summary>
    public int ExpiringPercent { get; }

    /// <summary>How many of the sends find receivers that take nothing now.</summary>
    public int BusyPercent { get; }

    /// <summary>The route on which nothing arrives before the world becomes well; null for none.</summary>
    public int? AwayRoute { get; }

    /// <summary>The handle that most writes are for; null for none.</summary>
    public int? GreedyHandle { get; }

    public Ending Ending { get; }

    public OutputBufferOptions Options { get; }

    public OutputHandle[] Handles { get; }

    /// <summary>How much later than it is due a timer may fire, and be seen to.</summary>
    public TimeSpan TimerSlack => HasHostileClock ? TimeSpan.FromMilliseconds(50) : TimeSpan.Zero;

    /// <summary>True when every message must arrive.</summary>
    public bool IsLossless =>
        !MayRefuse && !MayGiveUp && ExpiringPercent == 0 && Options.Overflow != OverflowPolicy.DropOldest && Ending != Ending.StopWhileDead;

    /// <summary>True when a write drops a message without an error, counted, when the buffer is full.</summary>
    public bool Drops => Options.Overflow is OverflowPolicy.DropNewest or OverflowPolicy.DropOldest;

    public bool Chance(int percent) => Random.Next(100) < percent;

    public int Pick(int count) => Random.Next(count);

    public T PickOne<T>(IReadOnlyList<T> items) => items[Random.Next(items.Count)];

    /// <summary>One bit for each route that a handle takes: the one, the other or both.</summary>
    public int RoutesOf(int handle) => HasTwoRoutes ? (handle % 3) + 1 : 1;

    public bool IsGroup(int handle) => !Handles[handle].IsConnection;

    /// <summary>The handle of the next write.</summary>
    public int NextHandle() => GreedyHandle is { } greedy && Chance(70) ? greedy : Pick(Handles.Length);

    public SendEnding NextEnding()
    {
        if (Chance(BusyPercent))
            return SendEnding.FindsBusyReceivers;
        if (!Chance(FailsPercent))
            return SendEnding.Succeeds;
        return PickOne([SendEnding.Fails, SendEnding.LosesAcknowledgement, SendEnding.BreaksOff, SendEnding.CancelsItself, SendEnding.Answers, SendEnding.Answers]);
    }

    public override string ToString() =>
        $"{Actors} actors, {Steps} steps, {(HasTwoRoutes ? "two routes" : "one route")} of {Partitions[0]} and {Partitions[1]} partitions, "
        + $"inline {SendsInline[0]} {SendsInline[1]}, {StallsPercent} % stall, {FailsPercent} % fail, {Options.Overflow} at {Options.MaxBufferedBytes} B, "
        + $"batches {Options.MaxBatchBytes} B {Options.MaxBatchMessages}, sends {Options.MaxSendBytes} B {Options.MaxSendBatches}, "
        + $"latest {LatestPercent} %, busy {BusyPercent} %, expiring {ExpiringPercent} %, linger {Options.Linger.TotalMilliseconds} ms, scope age {Options.MaxScopeAge}, idle {Options.HandleIdleTimeout}, refuses {MayRefuse}, gives up {MayGiveUp}, "
        + $"away {AwayRoute}, greedy {GreedyHandle}, share {Options.MaxBufferedBytesPerHandle}, answers in order {AnswersInOrder}, hostile clock {HasHostileClock}, hostile observers {HasHostileObservers}, {Ending}";

    private static OutputHandle Group(uint remainder) =>
        Enumerable.Range(0, int.MaxValue).Select(number => OutputHandle.Named($"group {number}")).First(group => (uint)group.GetHashCode() % (37 * 6) == remainder);

    private OutputBufferOptions CreateOptions() => new()
    {
        Node = 0,
        MaxBatchBytes = PickOne([256, 256, 64 * 1024]),
        MaxBatchMessages = PickOne([1, 3, 10_000]),
        MaxMessageBytes = 128,
        MaxBufferedBytes = PickOne([1024, 1024, 2048, 64 * 1024]),
        MaxBufferedBytesPerHandle = PickOne<long?>([null, null, 256]),
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

/// <summary>How a schedule ends.</summary>
internal enum Ending
{
    /// <summary>The world becomes well, all scopes close, and everything settles.</summary>
    Settle,

    /// <summary>The buffer is stopped over transports that work.</summary>
    StopWhileWell,

    /// <summary>The buffer is stopped over transports that never answer.</summary>
    StopWhileDead,
}

/// <summary>How a send of the scheduled transport ends.</summary>
internal enum SendEnding
{
    /// <summary>All arrives, and is acknowledged.</summary>
    Succeeds,

    /// <summary>Nothing arrives.</summary>
    Fails,

    /// <summary>All arrives, and the acknowledgement is lost.</summary>
    LosesAcknowledgement,

    /// <summary>A part arrives before it fails.</summary>
    BreaksOff,

    /// <summary>Each batch, and each message of a batch that is acknowledged, has an outcome of its own.</summary>
    Answers,

    /// <summary>The receivers of one node, or of all, take nothing; the others get theirs.</summary>
    FindsBusyReceivers,

    /// <summary>It is cancelled for a reason of its own.</summary>
    CancelsItself,

    /// <summary>It heeds its token.</summary>
    IsCancelled,
}
