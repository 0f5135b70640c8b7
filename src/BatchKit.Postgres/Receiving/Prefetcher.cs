using System.Threading.Channels;

namespace BatchKit.Postgres.Receiving;

/// <summary>Claims for all handlers over one connection. It prefetches batches, fetches more when half of them are used, and settles handled ones in the same exchanges.</summary>
internal sealed class Prefetcher(ReceiverParts parts, BatchRunner runner)
{
    // How long the others wait for a claim that is settled alone. An exchange takes some milliseconds.
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(100);

    private readonly Channel<HeldClaim> _ready = Channel.CreateUnbounded<HeldClaim>(new UnboundedChannelOptions { SingleWriter = true });
    private readonly WorkSignal _progress = new();
    private volatile bool _mayHaveWork;
    private int _readyMessages;

    // Guards the queue.
    private readonly Lock _lock = new();
    private readonly Queue<HeldClaim> _handled = new();

    // Used by the task that exchanges: settlements that go on alone, and whether the last request for claims was for retries.
    private readonly List<Task> _aside = [];
    private bool _isRetriesTurn;
    private bool _owesLook;

    public async Task RunAsync()
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var handlers = new Task[parts.Options.Concurrency];
        for (var index = 0; index < handlers.Length; index++)
            handlers[index] = parts.EndWithAsync(HandleAsync());
        var waking = WakeAsync();
        using var exchanger = new ClaimExchanger(parts);
        var fetching = parts.EndWithAsync(FetchAsync(exchanger));
        await fetching.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        // Handlers finish their current batches, and give back the prefetched ones.
        _ready.Writer.Complete();
        var ending = Task.WhenAll(handlers);
        while (!ending.IsCompleted)
        {
            await Task.WhenAny(ending, _progress.WaitAsync(CancellationToken.None)).ConfigureAwait(false);
            await SettleAsync(exchanger).ConfigureAwait(false);
        }

        await SettleAsync(exchanger).ConfigureAwait(false);
        await Task.WhenAll([fetching, ending, waking, .. _aside]).ConfigureAwait(false);
    }

    private async Task FetchAsync(ClaimExchanger exchanger)
    {
        while (!parts.Stop.Stopping.IsCancellationRequested)
        {
            var handled = TakeHandled();
            var wanted = WantedClaims();
            if (handled.Count == 0 && wanted == 0)
                await _progress.WaitAsync(parts.Stop.Stopping).ConfigureAwait(false);
            else
                await ExchangeAsync(exchanger, handled, wanted).ConfigureAwait(false);
        }
    }

    private async ValueTask SettleAsync(ClaimExchanger exchanger)
    {
        while (TakeHandled() is { Count: > 0 } handled)
            await ExchangeAsync(exchanger, handled, wanted: 0).ConfigureAwait(false);
    }

    private async ValueTask ExchangeAsync(ClaimExchanger exchanger, List<HeldClaim> handled, int wanted)
    {
        HeldClaim[] settled = [.. handled];
        if (wanted > 0)
        {
            // Reset before the request: a wake during the request may announce messages that the request does not see.
            _mayHaveWork = false;
            _isRetriesTurn = !_isRetriesTurn;
        }

        var taken = await exchanger.ExchangeAsync(handled, new ClaimRequest(wanted, _isRetriesTurn ? wanted : 0), isShared: handled.Count > 0).ConfigureAwait(false);
        if (taken is null)
        {
            _mayHaveWork |= wanted > 0;
            await SettleAloneAsync(handled).ConfigureAwait(false);
            return;
        }

        foreach (var held in taken)
            MakeReady(held);
        _owesLook |= !Array.TrueForAll(settled, held => parts.Policy.IsDone(held.Claim.Batch));
        // While there is work, claims find retries that are due.
        if (_mayHaveWork || (wanted == 0 && !_owesLook))
            return;
        parts.UpkeepAlarm.RingWithin(_owesLook || taken.Count == 0 ? Upkeep.Soon : Upkeep.Later);
        _owesLook = false;
    }

    /// <summary>Settles each claim alone, because the server did not settle them together. One that takes long, or is refused, goes on aside; there are as many of these as handlers, then the receiver waits, as it does without prefetching.</summary>
    private async ValueTask SettleAloneAsync(List<HeldClaim> handled)
    {
        foreach (var held in handled)
        {
            var settling = SettleAloneAsync(held);
            _aside.Add(settling);
            await settling.WaitAsync(Patience, parts.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            while (_aside.RemoveAll(static other => other.IsCompletedSuccessfully) == 0 && _aside.Count > parts.Options.Concurrency)
                await (await Task.WhenAny(_aside).ConfigureAwait(false)).ConfigureAwait(false);
        }
    }

    private async Task SettleAloneAsync(HeldClaim held)
    {
        using var exchanger = new ClaimExchanger(parts);
        await exchanger.ExchangeAsync([held], new ClaimRequest(Claims: 0, Retries: 0), isShared: false, isRepeat: true).ConfigureAwait(false);
        if (!parts.Policy.IsDone(held.Claim.Batch))
            parts.UpkeepAlarm.RingWithin(Upkeep.Soon);
    }

    private int WantedClaims()
    {
        var ready = Volatile.Read(ref _readyMessages);
        return _mayHaveWork && parts.Intake.IsOpen && ready <= parts.Options.Prefetch / 2 ? Math.Max(1, (parts.Options.Prefetch - ready) / parts.Options.BatchSize) : 0;
    }

    private void MakeReady(HeldClaim held)
    {
        if (held.Claim.HasMore)
            _mayHaveWork = true;
        Count(held.Claim.Batch.Count);
        _ready.Writer.TryWrite(held);
    }

    // As far as the server can settle them in one transaction without taking long.
    private List<HeldClaim> TakeHandled()
    {
        var taken = new List<HeldClaim>();
        var bytes = 0L;
        lock (_lock)
        {
            while (taken.Count < parts.Store.MostClaims && _handled.TryPeek(out var next) && ((bytes += next.Claim.Bytes) <= parts.Options.MaxBatchBytes || taken.Count == 0))
                taken.Add(_handled.Dequeue());
        }

        return taken;
    }

    private async Task HandleAsync()
    {
        await foreach (var held in _ready.Reader.ReadAllAsync(CancellationToken.None).ConfigureAwait(false))
        {
            Count(-held.Claim.Batch.Count);
            await runner.RunAsync(held).ConfigureAwait(false);
            lock (_lock)
                _handled.Enqueue(held);
            _progress.Wake();
        }
    }

    private async Task WakeAsync()
    {
        while (await parts.Signal.WaitAsync(parts.Stop.Stopping).ConfigureAwait(false))
        {
            _mayHaveWork = true;
            _progress.Wake();
        }
    }

    private void Count(int messages)
    {
        Interlocked.Add(ref _readyMessages, messages);
        parts.Counters.Prefetched(messages);
    }
}
