using System.Globalization;
using BatchKit.Transports;
using NATS.Client.Core;
using NATS.Client.JetStream;
using NATS.Client.JetStream.Models;
using NATS.Client.KeyValueStore;

namespace BatchKit.Nats;

/// <summary>Leases a node's number in a key-value bucket. One process at a time holds it.</summary>
/// <remarks>
/// A key is a number, and its value names the holder. The bucket deletes a key that was not renewed for <see cref="Time"/>. The holder counts the same time by its own clock from before each renewal, so it
/// stops before another process can have the number: a process that was frozen finds its lease over. See docs/decisions/0091.
/// </remarks>
internal sealed class NatsNodeLease(NatsLink link, string bucket, int replicas, NodeNumber node, TimeProvider timeProvider) : IDisposable
{
    /// <summary>How long a lease lasts that is not renewed.</summary>
    public static readonly TimeSpan Time = TimeSpan.FromSeconds(3);

    /// <summary>How often a holder renews its lease.</summary>
    public static readonly TimeSpan RenewalInterval = Time / 3;

    private const int Attempts = 3;

    private static readonly TimeSpan AttemptInterval = TimeSpan.FromMilliseconds(250);

    // A holder that has just ended frees its number within the lease's time, and the server may be a little late.
    private static readonly TimeSpan Patience = Time + TimeSpan.FromSeconds(2);

    private readonly string _holder = NodeTakenException.NameHolder(Random.Shared.Next().ToString("x8", CultureInfo.InvariantCulture));
    private readonly NatsKVContext _context = new(link.JetStream);

    // Guards the store and the revision; IsHeld reads the end from any thread.
    private readonly SemaphoreSlim _gate = new(1, 1);
    private readonly CancellationTokenSource _ending = new();
    private Task<string> _keeping = Task.FromResult("It was not taken yet.");
    private INatsKVStore? _store;
    private ulong _revision;
    private long _endsAt;

    // For how long it is held from now on.
    private TimeSpan Left => timeProvider.GetElapsedTime(timeProvider.GetTimestamp(), Interlocked.Read(ref _endsAt));

    private bool IsHeld => Left > TimeSpan.Zero;

    /// <summary>Ends with the reason when the lease that was taken last is lost.</summary>
    public Task<string> Lost => _keeping;

    /// <summary>Leases the number, and renews it until it is lost or given back. When it is taken and nothing has read it yet, leases another one.</summary>
    /// <exception cref="NodeTakenException">Another process has the number.</exception>
    public async Task TakeAsync(CancellationToken cancellationToken)
    {
        if (!IsHeld)
            await FindAsync(cancellationToken).ConfigureAwait(false);
        if (_keeping.IsCompleted)
            _keeping = CallerContext.RunWithout(() => KeepAsync(_ending.Token));
    }

    /// <summary>Whether this process has the number: by its own clock, or else because the server says so now.</summary>
    public async ValueTask<bool> IsHeldAsync(CancellationToken cancellationToken) => IsHeld || await TryTakeAsync(node.Value, cancellationToken).ConfigureAwait(false) is null;

    /// <summary>Gives the number back, so that another process can lease it at once.</summary>
    public async Task ReleaseAsync(CancellationToken cancellationToken)
    {
        await _ending.CancelAsync().ConfigureAwait(false);
        await ((Task)_keeping).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await ReleaseAsync(node.Candidate, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Lets the number expire.</summary>
    public void EndRenewal() => _ending.Cancel();

    /// <inheritdoc/>
    public void Dispose()
    {
        EndRenewal();
        _ending.Dispose();
        _gate.Dispose();
    }

    private async Task FindAsync(CancellationToken cancellationToken)
    {
        var began = timeProvider.GetTimestamp();
        while (true)
        {
            var number = node.Candidate;
            var other = await TryTakeAsync(number, NatsLink.AnswerLimit, cancellationToken).ConfigureAwait(false);
            if (other is null && node.TryFix(number))
                return;
            if (other is null)
                await ReleaseAsync(number, cancellationToken).ConfigureAwait(false);
            else if (node.TryDrawAnother())
                continue;
            else if (timeProvider.GetElapsedTime(began) > Patience)
                throw new NodeTakenException(NodeTakenException.Describe(number, other, _holder, $"{Time.TotalSeconds} seconds"));
            await Task.Delay(AttemptInterval, timeProvider, cancellationToken).ConfigureAwait(false);
        }
    }

    /// <returns>Why the lease is lost.</returns>
    private async Task<string> KeepAsync(CancellationToken cancellationToken)
    {
        while (true)
        {
            await Task.Delay(RenewalInterval, timeProvider, cancellationToken).ConfigureAwait(false);
            try
            {
                // A lease that is over may still be ours, after a freeze.
                var left = Left;
                if (await TryTakeAsync(node.Value, left > TimeSpan.Zero ? left : RenewalInterval, cancellationToken).ConfigureAwait(false) is { } other)
                    return $"Node {node.Value} is held by {other} now.";
            }
            catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
            {
                // The server may be back in time, and without it nothing is received either. Whatever it is, the reason is told when the lease is over. The limit's timer may be a little early.
                if (exception is TimeoutException || !IsHeld)
                    return $"The lease of node {node.Value} could not be renewed: {NatsLink.Describe(exception)}";
            }
        }
    }

    private async Task ReleaseAsync(int number, CancellationToken cancellationToken)
    {
        Interlocked.Exchange(ref _endsAt, 0);
        if (_store is not { } store || _revision == 0)
            return;
        var revision = Interlocked.Exchange(ref _revision, 0);
        await store.TryDeleteAsync(Key(number), new NatsKVDeleteOpts { Revision = revision }, cancellationToken).ConfigureAwait(false);
    }

    private static string Key(int number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>Asks within a limit. The client would wait without an end for a connection that is away.</summary>
    /// <exception cref="TimeoutException">The server did not answer in time.</exception>
    private async Task<string?> TryTakeAsync(int number, TimeSpan limit, CancellationToken cancellationToken)
    {
        using var late = new CancellationTokenSource(limit, timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(late.Token, cancellationToken);
        try
        {
            return await TryTakeAsync(number, either.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException exception) when (late.IsCancellationRequested && !cancellationToken.IsCancellationRequested)
        {
            throw new TimeoutException(link.Fault ?? $"{link.Target} did not answer in time.", exception);
        }
    }

    /// <returns>Null when this process has the number; else who has it.</returns>
    private async Task<string?> TryTakeAsync(int number, CancellationToken cancellationToken)
    {
        await _gate.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            var store = _store ??= await OpenAsync(cancellationToken).ConfigureAwait(false);
            for (var attempt = 1; ; attempt++)
            {
                var began = timeProvider.GetTimestamp();
                if (await TryWriteAsync(store, number, cancellationToken).ConfigureAwait(false))
                {
                    Interlocked.Exchange(ref _endsAt, began + (long)(Time.TotalSeconds * timeProvider.TimestampFrequency));
                    return null;
                }

                var entry = await store.TryGetEntryAsync<string>(Key(number), cancellationToken: cancellationToken).ConfigureAwait(false);
                var holder = entry.Success ? entry.Value.Value : null;
                // Ours, after an answer that was lost; or the key has just ended.
                _revision = entry.Success && holder == _holder ? entry.Value.Revision : 0;
                if (attempt < Attempts && (holder is null || holder == _holder))
                    continue;
                // Not until its time is over: the holder reads the node's frames from now on.
                Interlocked.Exchange(ref _endsAt, 0);
                return holder ?? "a process that gives it back";
            }
        }
        catch (NatsException)
        {
            // The bucket may be gone with a server that kept it in memory.
            _store = null;
            throw;
        }
        finally
        {
            _gate.Release();
        }
    }

    /// <returns>False when the key is not as this process believes.</returns>
    private async Task<bool> TryWriteAsync(INatsKVStore store, int number, CancellationToken cancellationToken)
    {
        var written = _revision == 0
            ? await store.TryCreateAsync(Key(number), _holder, cancellationToken: cancellationToken).ConfigureAwait(false)
            : await store.TryUpdateAsync(Key(number), _holder, _revision, cancellationToken: cancellationToken).ConfigureAwait(false);
        if (!written.Success && written.Error is not (NatsKVCreateException or NatsKVWrongLastRevisionException))
            throw written.Error;
        if (written.Success)
            _revision = written.Value;
        return written.Success;
    }

    private async Task<INatsKVStore> OpenAsync(CancellationToken cancellationToken)
    {
        _revision = 0;
        return await _context.CreateOrUpdateStoreAsync(
            new NatsKVConfig(bucket) { MaxAge = Time, Storage = NatsKVStorageType.Memory, NumberOfReplicas = replicas, History = 1 }, cancellationToken).ConfigureAwait(false);
    }
}
