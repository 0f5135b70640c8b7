using System.Threading.Channels;

namespace BatchKit.Postgres.Receiving;

/// <summary>Claims for all handlers over one connection. It prefetches batches, fetches more when half of them are used, and settles handled ones in the same exchanges.</summary>
internal sealed class Prefetcher(ReceiverParts parts, BatchRunner runner)
{
    private readonly Channel<HeldClaim> _ready = Channel.CreateUnbounded<HeldClaim>(new UnboundedChannelOptions { SingleWriter = true });
    private readonly WorkSignal _progress = new();
    private volatile bool _mayHaveWork;
    private int _readyMessages;

    // Guards the list.
    private readonly Lock _lock = new();
    private List<HeldClaim> _handled = [];

    public async Task RunAsync()
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        var handlers = new Task[parts.Options.Concurrency];
        for (var index = 0; index < handlers.Length; index++)
            handlers[index] = HandleAsync();
        var waking = WakeAsync();
        using var exchanger = new ClaimExchanger(parts);
        await FetchAsync(exchanger).ConfigureAwait(false);
        // Handlers finish their current batches, and give back the prefetched ones.
        _ready.Writer.Complete();
        var ending = Task.WhenAll(handlers);
        while (!ending.IsCompleted)
        {
            await Task.WhenAny(ending, _progress.WaitAsync(CancellationToken.None)).ConfigureAwait(false);
            await exchanger.ExchangeAsync(TakeHandled(), request: default, isShared: false).ConfigureAwait(false);
        }

        await exchanger.ExchangeAsync(TakeHandled(), request: default, isShared: false).ConfigureAwait(false);
        await Task.WhenAll(ending, waking).ConfigureAwait(false);
    }

    private async Task FetchAsync(ClaimExchanger exchanger)
    {
        var isRetriesTurn = false;
        while (!parts.Stop.Stopping.IsCancellationRequested)
        {
            var handled = TakeHandled();
            var wanted = WantedClaims();
            if (handled.Count == 0 && wanted == 0)
            {
                await _progress.WaitAsync(parts.Stop.Stopping).ConfigureAwait(false);
                continue;
            }

            // Reset before the request: a wake during the request may announce messages that the request does not see.
            if (wanted > 0)
                _mayHaveWork = false;
            isRetriesTurn = !isRetriesTurn;
            foreach (var held in (await exchanger.ExchangeAsync(handled, new ClaimRequest(wanted, isRetriesTurn ? wanted : 0), isShared: false).ConfigureAwait(false))!)
                MakeReady(held);
        }
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

    private List<HeldClaim> TakeHandled()
    {
        lock (_lock)
        {
            // Replaced even when it is empty: handlers may add to the old list during the exchange, which would then count those claims as settled.
            var handled = _handled;
            _handled = [];
            return handled;
        }
    }

    private async Task HandleAsync()
    {
        await foreach (var held in _ready.Reader.ReadAllAsync(CancellationToken.None).ConfigureAwait(false))
        {
            Count(-held.Claim.Batch.Count);
            await runner.RunAsync(held).ConfigureAwait(false);
            lock (_lock)
                _handled.Add(held);
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
