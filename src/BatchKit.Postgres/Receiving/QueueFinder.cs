using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Finds a receiver's queue as soon as the server can be reached, and creates the schema and the queue if they do not exist.</summary>
internal sealed class QueueFinder(NpgsqlDataSource dataSource, Tables tables, PostgresQueueReceiverOptions options, ReceiverHealth health, TimeProvider timeProvider, ILogger logger)
{
    private readonly RetrySchedule _schedule = new(options.ReconnectDelay, options.MaxReconnectDelay);

    /// <summary>Tries until the queue is found.</summary>
    /// <param name="tried">Called after each failed attempt.</param>
    /// <param name="stopping">Ends the search; the result is null then.</param>
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
        // A new gate and a new directory, which remember nothing: the tables may have been dropped, and the queue may have been re-created with another number of shards.
        await new SchemaGate(dataSource, options.Schema, options.CreateSchema).PassAsync(stopping).ConfigureAwait(false);
        return await new QueueDirectory(dataSource, tables).FindOrCreateAsync(options.Queue, options.Shards, stopping).ConfigureAwait(false);
    }
}
