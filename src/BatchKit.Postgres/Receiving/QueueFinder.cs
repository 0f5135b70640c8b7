using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Finds a receiver's queue when the server can be reached, and creates schema and queue where there are none.</summary>
internal sealed class QueueFinder(NpgsqlDataSource dataSource, Tables tables, PostgresQueueReceiverOptions options, ReceiverHealth health, TimeProvider timeProvider, ILogger logger)
{
    private readonly SchemaGate _gate = new(dataSource, options.Schema, options.CreateSchema);
    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);

    /// <summary>Tries until it is found.</summary>
    /// <param name="tried">Called behind each attempt that failed.</param>
    /// <param name="stopping">Ends it, with null.</param>
    public async Task<QueueEntry?> FindAsync(Action tried, CancellationToken stopping)
    {
        var failures = 0;
        var isLogged = false;
        while (!stopping.IsCancellationRequested)
        {
            try
            {
                var queue = await FindOnceAsync(stopping).ConfigureAwait(false);
                health.Succeeded(this);
                if (queue.Shards == options.Shards)
                    return queue;
                var mismatch = $"{nameof(options.Shards)} is {options.Shards}, but queue {options.Queue} was created with {queue.Shards}: set it to {queue.Shards}, or use another queue.";
                health.Stopped(mismatch);
                if (!isLogged)
                    Log.ShardsMismatched(logger, options.Queue, mismatch);
                isLogged = true;
            }
            catch (OperationCanceledException) when (stopping.IsCancellationRequested)
            {
                break;
            }
            catch (Exception exception)
            {
                health.Failed(this, exception);
            }

            tried();
            await Task.Delay(_schedule.DelayAfter(++failures, Random.Shared), timeProvider, stopping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }

        health.Forget(this);
        return null;
    }

    private async Task<QueueEntry> FindOnceAsync(CancellationToken stopping)
    {
        await _gate.PassAsync(stopping).ConfigureAwait(false);
        // Not remembered: a queue that is made anew with other shards is to be seen.
        return await new QueueDirectory(dataSource, tables).FindOrCreateAsync(options.Queue, options.Shards, stopping).ConfigureAwait(false);
    }
}
