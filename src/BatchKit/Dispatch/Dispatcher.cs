using System.Collections.Immutable;
using System.Globalization;
using System.Runtime.CompilerServices;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Dispatch;

/// <summary>All routes and partitions of a buffer: which of them a handle's output takes, and their end at stop.</summary>
internal sealed class Dispatcher : IAsyncDisposable
{
    /// <summary>The time that transports get after the drain limit to end their sends: ten times what a send gets to notice that its token was cancelled.</summary>
    public static readonly TimeSpan AbortTimeout = TimeSpan.FromSeconds(5);

    private readonly BufferSettings _settings;
    private readonly IOutputRouter? _router;
    private readonly Dictionary<string, DispatchRoute> _routes = new(StringComparer.Ordinal);
    private readonly List<DispatchPartition> _partitions = [];
    private readonly Lock _evictionGate = new();
    private readonly PartitionCounters _evictedHeld = new();
    private readonly DispatchRoute _firstRoute;

    public Dispatcher(IReadOnlyList<OutputRoute> routes, IOutputRouter? router, BufferSettings settings, HoldQueue holds, long epoch)
    {
        _settings = settings;
        _router = router;
        foreach (var route in routes)
        {
            if (!TryAdd(route, holds, epoch))
                throw new ArgumentException($"The route '{route.Name}' was given twice. Give each route a name of its own.", nameof(routes));
        }

        _firstRoute = _routes[routes[0].Name];
    }

    /// <summary>The partition of each route that the handle's output takes.</summary>
    /// <exception cref="InvalidOperationException">The router named none, or one that does not exist.</exception>
    public DispatchPartition[] PartitionsOf(OutputHandle handle)
    {
        if (_router is null)
            return _firstRoute.PartitionsOf(handle);
        var names = _router.GetRoutes(handle);
        if (names.IsDefaultOrEmpty)
            throw new InvalidOperationException($"The router {_router.GetType().Name} named no route for a handle. Return at least one of: {string.Join(", ", _routes.Keys)}.");
        if (names.Length == 1)
            return Find(names[0]).PartitionsOf(handle);
        return [.. names.Distinct(StringComparer.Ordinal).Select(name => Find(name).PartitionsOf(handle)[0])];
    }

    /// <summary>True when output for the handle takes the route to this node's own connections.</summary>
    public bool TakesLocalRoute(OutputHandle handle)
    {
        if (!_routes.ContainsKey(LocalFirstRouter.LocalRoute))
            return false;
        return _router is null ? _routes[LocalFirstRouter.LocalRoute] == _firstRoute : _router.GetRoutes(handle).Contains(LocalFirstRouter.LocalRoute, StringComparer.Ordinal);
    }

    /// <summary>The part of the capacity of output that takes these partitions.</summary>
    public RouteBudget BudgetOf(DispatchPartition[] partitions) => partitions.Length == 1 ? partitions[0].Budget : _settings.Budget.Parts[^1];

    /// <summary>Drops a batch from the queues that it waits in.</summary>
    /// <returns>False when it waits in none: a sender has just taken it.</returns>
    public static bool TryDropQueued(in OldestBatch oldest)
    {
        var isDropped = false;
        foreach (var route in oldest.Batch.Routes)
            isDropped |= route.Queue is { } queue && queue.TryDrop(route, oldest.Version);
        return isDropped;
    }

    /// <summary>Bytes of batches that are queued or under way on a route.</summary>
    /// <exception cref="ArgumentException">There is no such route.</exception>
    public long CountPendingBytes(string routeName) => _routes.TryGetValue(routeName, out var known)
        ? known.CountPendingBytes()
        : throw new ArgumentException($"There is no route '{routeName}'. Name one of these: {string.Join(", ", _routes.Keys)}.", nameof(routeName));

    /// <summary>Drops a batch that never reached a queue.</summary>
    public void Drop(PendingBatch held)
    {
        lock (_evictionGate)
        {
            foreach (var route in held.Routes)
                _evictedHeld.Settle(route, SettlementOutcome.Evicted, failure: null);
        }
    }

    public Task WhenIdleAsync() => Task.WhenAll(_partitions.Select(static partition => partition.WhenIdleAsync()));

    /// <summary>Sends what lingers, where senders run: no route waits for another, nor does the caller.</summary>
    public void EndLinger()
    {
        foreach (var partition in _partitions)
        {
            if (partition.EndLinger())
                partition.Schedule();
        }
    }

    /// <summary>Ends the sends under way and drops what waits, because the drain limit has passed.</summary>
    /// <returns>False when a transport blocks its thread: it can't be ended, and what it has stays pending.</returns>
    public async Task<bool> AbortAsync()
    {
        var aborts = _partitions.Select(static partition => partition.AbortAsync()).ToArray();
        try
        {
            await Task.WhenAll([.. aborts, WhenIdleAsync()]).WaitAsync(AbortTimeout, _settings.Clock.TimeProvider).ConfigureAwait(false);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var partition in _partitions)
            await partition.DisposeAsync().ConfigureAwait(false);
    }

    public OutputStatistics GetStatistics() => new()
    {
        AcceptedMessages = 0,
        AcceptedBytes = 0,
        AcknowledgedMessages = CountMessages(SettlementOutcome.Acknowledged),
        FailedMessages = CountMessages(SettlementOutcome.Failed),
        StopDroppedMessages = CountMessages(SettlementOutcome.Stopped),
        OverflowDroppedMessages = CountMessages(SettlementOutcome.Evicted),
        ExpiredMessages = _settings.Metrics.ExpiredMessages,
        RefusedMessages = _settings.Metrics.RefusedMessages,
        WaitingWrites = _settings.Metrics.WaitingWrites,
        SupersededMessages = 0,
        PendingMessages = _partitions.Sum(static partition => partition.CountPending().Messages),
        BufferedBytes = 0,
        Batches = _settings.Metrics.Batches + CountUnscopedBatches(),
        Sends = _partitions.Sum(static partition => partition.Sends.All),
        FailedSends = _partitions.Sum(static partition => partition.Sends.Failed),
        LiveHandles = 0,
        OpenScopes = 0,
    };

    /// <summary>A sentence for each route that cannot send now.</summary>
    public ImmutableArray<string> DescribeFailures() => [.. _partitions.Select(DescribeFailure).OfType<string>()];

    /// <summary>A sentence for each route that works, but whose next hop does not take some, or refuses everything.</summary>
    public ImmutableArray<string> DescribeNotTaken() =>
        [.. _partitions.Where(static partition => partition.Health.Failure is null).SelectMany(partition => new[] { DescribeBusy(partition), DescribeRefusal(partition) }).OfType<string>()];

    /// <summary>Batches that were sealed because their sender took them; the metrics count all others.</summary>
    public long CountUnscopedBatches() => _partitions.Sum(static partition => partition.UnscopedBatches);

    private string? DescribeBusy(DispatchPartition partition) =>
        partition.Busy is not { } busy ? null
        : $"Route '{partition.RouteName}' sends, but some receivers have taken nothing for {Seconds(busy.Since)} s ({busy.Attempts} attempts): {FailureText.MessageOf(busy.Cause)}";

    private string? DescribeRefusal(DispatchPartition partition) =>
        partition.Health.Refusal is not { } refusal ? null
        : $"Route '{partition.RouteName}' has taken nothing for {Seconds(refusal.Since)} s: {refusal.Attempts} sends were refused, and their messages count as failed. {FailureText.MessageOf(refusal.Cause)}";

    private string? DescribeFailure(DispatchPartition partition) =>
        partition.Health.Failure is not { } failure ? null
        : $"Route '{partition.RouteName}' has not been able to send for {Seconds(failure.Since)} s ({failure.Attempts} attempts): {FailureText.MessageOf(failure.Cause)}";

    private string Seconds(long since) => _settings.Clock.ElapsedSince(since).TotalSeconds.ToString("0", CultureInfo.InvariantCulture);

    private long CountMessages(SettlementOutcome outcome) =>
        _partitions.Sum(partition => partition.CountMessages(outcome)) + _evictedHeld.Messages(outcome);

    private DispatchRoute Find(string name) => _routes.TryGetValue(name, out var route)
        ? route
        : throw new InvalidOperationException(
            $"The router {_router!.GetType().Name} named the route '{name}', which was not added. Return one of these, or add it: {string.Join(", ", _routes.Keys)}.");

    private bool TryAdd(OutputRoute route, HoldQueue holds, long epoch)
    {
        // Without a router everything takes the first route, which then has all of the capacity.
        var budget = _settings.Budget.Parts[Math.Min(_routes.Count, _settings.Budget.Parts.Length - 1)];
        var partitions = new DispatchPartition[route.Partitions];
        for (var index = 0; index < partitions.Length; index++)
        {
            partitions[index] = new DispatchPartition(_settings, holds, route, new PartitionIdentity(epoch, _partitions.Count), budget);
            _partitions.Add(partitions[index]);
        }

        return _routes.TryAdd(route.Name, new DispatchRoute(partitions));
    }
}

/// <summary>A route's partitions; a handle always maps to the same one.</summary>
internal sealed class DispatchRoute(DispatchPartition[] partitions)
{
    // 2^32 divided by the golden ratio.
    private const uint Mixer = 2654435769;

    // An array for each, so that a handle with one route allocates none.
    private readonly DispatchPartition[][] _single = [.. partitions.Select(static partition => new[] { partition })];

    public long CountPendingBytes() => partitions.Sum(static partition => partition.CountPending().Bytes);

    public DispatchPartition[] PartitionsOf(OutputHandle handle)
    {
        // The high bits of a product: where a node deals its connections to several games in turn, the low bits of their numbers are the same in each game.
        var mixed = unchecked((uint)handle.GetHashCode() * Mixer);
        return _single[(int)(((ulong)mixed * (uint)_single.Length) >> 32)];
    }
}

/// <summary>The partitions whose senders a caller starts once it has released its locks.</summary>
internal struct SenderStarts
{
    private DispatchPartition? _first;
    private List<DispatchPartition>? _more;

    public void Add(DispatchPartition partition, bool mustStart)
    {
        if (!mustStart)
            return;
        if (_first is null)
            _first = partition;
        else
            (_more ??= []).Add(partition);
    }

    /// <summary>True when this caller starts the partition, and sends on its own thread.</summary>
    public readonly bool IsInline(DispatchPartition partition) => ReferenceEquals(_first, partition) && partition.StartsInline;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public readonly void StartAll()
    {
        if (_first is not null)
            StartEach();
    }

    /// <summary>Starts them where senders run, so that no transport blocks the caller.</summary>
    public readonly void ScheduleAll()
    {
        _first?.Schedule();
        foreach (var partition in _more ?? [])
            partition.Schedule();
    }

    // Only the first may use this thread, and last of all: its transport may block.
    private readonly void StartEach()
    {
        if (_more is not null)
        {
            foreach (var partition in _more)
                partition.Schedule();
        }

        _first!.Start();
    }
}
