using BatchKit.Postgres.Listening;
using BatchKit.Postgres.Schema;

namespace BatchKit.Postgres.Receiving;

/// <summary>Runs all tasks of a receiver that has found its queue, until it stops.</summary>
internal sealed class ReceiverSession(ReceiverParts parts, IQueueHandler handler, Tables tables, QueueEntry queue)
{
    public async Task RunAsync()
    {
        using var settled = new CancellationTokenSource();
        var listener = new QueueListener(parts.DataSource, tables, parts.Options, parts.Signal.Wake, parts.TimeProvider, parts.Logger);
        var others = Task.WhenAll(new Upkeep(parts).RunAsync(), listener.RunAsync(queue, parts.Stop.Stopping));
        var renewal = new Renewal(parts).RunAsync(settled.Token);
        try
        {
            // What waits already needs no notification.
            parts.Signal.Wake();
            await HandleAsync().ConfigureAwait(false);
        }
        finally
        {
            await settled.CancelAsync().ConfigureAwait(false);
            await renewal.ConfigureAwait(false);
            await others.ConfigureAwait(false);
        }
    }

    private Task HandleAsync()
    {
        var runner = new BatchRunner(parts, handler);
        if (parts.Options.Prefetch > 0)
            return new Prefetcher(parts, runner).RunAsync();
        var workers = new Task[parts.Options.Concurrency];
        for (var index = 0; index < workers.Length; index++)
            workers[index] = new Worker(parts, runner).RunAsync();
        return Task.WhenAll(workers);
    }
}
