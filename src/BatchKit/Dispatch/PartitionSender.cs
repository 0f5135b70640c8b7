using System.Diagnostics;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>Gives a partition's batches to the transport, again and again until each is settled. One send at a time.</summary>
/// <remarks>No exception leaves it: when anything inside it throws, the batches of that send are settled, and the partition continues.</remarks>
internal sealed class PartitionSender : IAsyncDisposable
{
    private readonly BufferSettings _settings;
    private readonly IBatchTransport _transport;
    private readonly PartitionIdentity _identity;
    private readonly Lock _gate;
    private readonly SendDeadline _deadline;
    private readonly RetrySchedule _schedule;
    private readonly Random _random;
    private readonly Func<RoutedBatch, bool> _isTooOld;
    private readonly OutgoingSend _send;
    private SendHalving _halving;
    private long _beganAt;
    private long _lastNumber;

    public PartitionSender(BufferSettings settings, OutputRoute route, PartitionIdentity identity, Lock gate)
    {
        _settings = settings;
        RouteName = route.Name;
        _transport = route.Transport;
        _identity = identity;
        _gate = gate;
        _schedule = new RetrySchedule(settings.RetryDelay, settings.MaxRetryDelay);
        _random = new Random((int)identity.Epoch ^ identity.Number);
        // What has waited behind sends that succeeded was not retried yet.
        _isTooOld = batch => settings.Clock.AgeOf(Math.Max(batch.Content.QueuedAt, _halving.BeganAt)) >= settings.DeliveryTimeout;
        _send = new OutgoingSend(Counters);
        Held = new HeldOutput(settings, _transport);
        Health = new PartitionHealth(settings);
        _deadline = new SendDeadline(settings, gate, RouteName, Health);
        MaxBatchBytes = _transport.MaxBatchBytes;
        MaxSendBytes = Math.Min(settings.MaxSendBytes, _transport.MaxSendBytes);
    }

    public string RouteName { get; }

    /// <summary>The largest batch that the transport takes, as far as is known: it may learn of a lower limit when it connects.</summary>
    public int MaxBatchBytes { get; private set; }

    public int MaxSendBytes { get; }

    public PartitionCounters Counters { get; } = new();

    public PartitionHealth Health { get; }

    /// <summary>What busy receivers did not take. Only the sender changes it; read it under the partition's lock.</summary>
    public HeldOutput Held { get; }

    public int Batches => _send.Count;

    public bool HasBatches => Batches > 0;

    /// <summary>True once the drain limit has passed: nothing more is sent.</summary>
    public bool IsAborted => _deadline.IsAborted;

    /// <summary>Adds a batch to the next send; call it under the partition's lock.</summary>
    public void Take(RoutedBatch batch)
    {
        if (_send.Count == 0)
            _deadline.Begin();
        _send.Add(batch);
    }

    /// <summary>Takes what must be tried again because its receivers were busy; call it under the partition's lock.</summary>
    /// <returns>False when nothing is due.</returns>
    public bool TakeHeld()
    {
        if (!Held.TakeDue(IsAborted))
            return false;
        foreach (var batch in Held.Retried!.Batches)
            Take(batch);
        return true;
    }

    /// <summary>The send of what was taken begins only now; call it under the partition's lock.</summary>
    public void RestartLimit()
    {
        if (HasBatches)
            _deadline.Begin();
    }

    /// <summary>Nothing is left to send; call it under the partition's lock.</summary>
    public void OnIdle()
    {
        _deadline.End();
        Held.OnIdle();
    }

    /// <summary>Sends what was taken; completes when each of its batches is settled. Never fails.</summary>
    public ValueTask SendAsync()
    {
        try
        {
            Health.Begin();
            if (Held.Retried is null && !Prepare())
                return default;
            if (_settings.Metrics.IsObservingSends || BatchKitTracing.IsListening)
                return SendObservedAsync();
            var pending = BeginSend();
            if (!pending.IsCompletedSuccessfully)
                return FinishAsync(pending, observation: null);
            pending.GetAwaiter().GetResult();
            Complete();
        }
        catch (Exception unexpected)
        {
            FailAll(unexpected);
        }

        return default;
    }

    /// <summary>Drops what was taken: the drain limit has passed.</summary>
    public void DropAll()
    {
        Seal();
        Held.Forget();
        _send.SettleAll(SettlementOutcome.Stopped, failure: null);
    }

    /// <inheritdoc cref="OutgoingSend.CountPending"/>
    public (long Messages, long Bytes) CountPending() => _send.CountPending();

    public Task AbortAsync() => _deadline.AbortAsync();

    public ValueTask DisposeAsync()
    {
        lock (_gate)
            _send.Forget();
        return _deadline.DisposeAsync();
    }

    // An async method of its own: the span that it makes current ends with it, and does not become the parent of the next send's span.
    private async ValueTask SendObservedAsync()
    {
        try
        {
            Activity.Current = null;
            using var observation = new SendObservation(_settings, RouteName, _send);
            await FinishAsync(BeginSend(), observation).ConfigureAwait(false);
        }
        catch (Exception unexpected)
        {
            FailAll(unexpected);
        }
    }

    private async ValueTask FinishAsync(ValueTask pending, SendObservation? observation)
    {
        try
        {
            while (true)
            {
                var failure = await WaitAsync(pending).ConfigureAwait(false);
                MaxBatchBytes = _transport.MaxBatchBytes;
                if (failure is null && _send.Offered == _send.Count)
                    break;
                if (failure is null)
                {
                    Continue();
                }
                else
                {
                    observation?.Fail(failure);
                    if (!await PrepareRetryAsync(failure, observation).ConfigureAwait(false))
                        return;
                }

                pending = BeginSend();
            }

            observation?.Succeed();
            Complete();
        }
        catch (Exception unexpected)
        {
            observation?.Fail(unexpected);
            observation?.Dispose();
            FailAll(unexpected);
        }
    }

    private bool Prepare()
    {
        Seal();
        if (!_send.SettleExpired())
            return false;
        if (_settings.DropsOldest)
            _send.MarkUnderWay();
        _send.Number(new ProducerId(_settings.Node, _identity.Epoch, _identity.Number), ref _lastNumber);
        return true;
    }

    private void Seal()
    {
        var sealedHere = _send.EnsureSealed();
        if (sealedHere > 0)
            Counters.CountUnscoped(sealedHere);
    }

    private ValueTask BeginSend()
    {
        Counters.CountSend();
        _beganAt = _settings.Clock.Coarse;
        try
        {
            return _transport.SendAsync(_send.Batches, _deadline.Token);
        }
        catch (Exception failure)
        {
            return ValueTask.FromException(failure);
        }
    }

    private void Complete()
    {
        _send.SettleAll(SettlementOutcome.Acknowledged, failure: null);
        Health.Acknowledge();
        Held.Acknowledge();
        Recover();
    }

    // The last resort: without it the partition would stand still for ever, with its batches unsettled.
    private void FailAll(Exception unexpected)
    {
        Counters.CountFailedSend();
        Health.Fail(Health.Attempts + 1, unexpected);
        Held.Forget();
        _send.SettleAll(SettlementOutcome.Failed, unexpected);
        _settings.Logger.SendBroke(_settings.LogThrottle, RouteName, unexpected);
    }

    private async ValueTask<Exception?> WaitAsync(ValueTask pending)
    {
        var failure = await _deadline.WaitForEndAsync(pending, _send).ConfigureAwait(false);

        // An encoder has ended the send, for instance by a task completion source: settling and sending can't go on under the lock of its handle.
        if (EncoderGuard.IsEncoding)
            await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        return failure;
    }

    /// <summary>Continues behind the first batches, which have arrived: one of those that are left is the cause of the failures.</summary>
    private void Continue()
    {
        _send.Offer(_halving.Acknowledge(_send.SettleOffered(), _send.Count));
        Health.Progress();
        lock (_gate)
            _deadline.Begin();
    }

    /// <summary>Settles what is decided and waits until the rest may be sent again.</summary>
    /// <returns>False when nothing is left to send.</returns>
    private async ValueTask<bool> PrepareRetryAsync(Exception failure, SendObservation? observation)
    {
        Counters.CountFailedSend();
        if (!Health.HasFailed)
            _halving.Begin(Held.FindBegin(_beganAt, failure));
        if (observation is not null && _send.IsDecided(failure, _isTooOld, _halving.IsRouteDown))
            observation.Dispose();
        var decided = SettleDecided(failure);
        if (decided.IsAnswered && _send.Count == 0)
        {
            // The next hop answered to each batch, so the route works.
            if (decided.GivenUp > 0)
                Held.Forget();
            Recover();
            return false;
        }

        var attempts = decided.Acknowledged > 0 || decided.IsAnswered ? 1 : Health.Attempts + 1;
        Health.Fail(attempts, failure);
        if (attempts == 1 && !_deadline.IsAborted)
            _settings.Logger.SendFailed(_settings.LogThrottle, RouteName, _send.Count, failure);
        if (_send.Count > 0)
            _send.Offer(FindNextAttempt(decided, attempts));
        await _deadline.PauseAsync(_schedule.DelayAfter(_halving.IsProbing ? 1 : attempts, _random)).ConfigureAwait(false);
        if (_deadline.IsAborted)
        {
            observation?.Dispose();
            DropAll();
        }

        if (_send.Count == 0)
        {
            Held.Forget();
            return false;
        }

        lock (_gate)
            _deadline.Begin();
        return true;
    }

    private DecidedBatches SettleDecided(Exception failure)
    {
        var held = new HeldSend(_transport, _settings.Logger.Faults);
        var decided = _send.SettleDecided(failure, _isTooOld, _halving.IsRouteDown, held);
        var refuses = decided.Refused > 0 && failure is not BatchSendException { DestinationsAreGone: true };
        Health.Note(refuses ? failure : null, hasProgress: decided.Acknowledged > 0);
        if (refuses)
            _settings.Logger.BatchesRefused(_settings.LogThrottle, RouteName, decided.Refused, failure);
        if (decided.RefusedMessages > 0)
            _settings.Logger.MessagesRefused(_settings.LogThrottle, RouteName, decided.RefusedMessages, failure);
        if (decided.GivenUp > 0)
            _settings.Logger.BatchesGivenUp(_settings.LogThrottle, RouteName, decided.GivenUp, _settings.DeliveryTimeout, failure);
        if (held.Batches.Count > 0)
            Hold(held, failure, attempts: decided.Acknowledged > 0 ? 1 : Held.Attempts + 1);
        return decided;
    }

    /// <summary>How many of the batches that are left the next attempt has.</summary>
    private int FindNextAttempt(in DecidedBatches decided, int attempts)
    {
        if (decided.Answered > 0)
            _send.Offer(_halving.Acknowledge(decided.Answered, _send.Count));
        if (decided.Left > 0)
            return _halving.Fail(decided.Left, _send.Count, attempts, _isTooOld(_send[0]));
        return decided is { GivenUp: > 0, Busy: 0 } ? _halving.GiveUp(_send.Count) : _send.Offered;
    }

    /// <summary>Busy receivers take nothing now: their batches wait, and output for others passes them.</summary>
    private void Hold(HeldSend held, Exception failure, int attempts)
    {
        if (Held.Retried is null && !_deadline.IsAborted)
            _settings.Logger.SendFailed(_settings.LogThrottle, RouteName, held.Batches.Count, failure);
        lock (_gate)
            Held.Add(held, failure, attempts, _halving.BeganAt, _schedule.DelayAfter(attempts, _random));
    }

    private void Recover()
    {
        if ((Health.Recover() ?? Held.Retried?.Failure) is not { } failure)
            return;
        Held.Forget();
        _settings.Logger.SendRecovered(_settings.LogThrottle, RouteName, failure.Attempts, _settings.Clock.ElapsedSince(failure.Since));
    }
}

/// <summary>What tells a partition from all others: the epoch of its buffer, and its number among all partitions of the buffer.</summary>
internal readonly record struct PartitionIdentity(long Epoch, int Number);
