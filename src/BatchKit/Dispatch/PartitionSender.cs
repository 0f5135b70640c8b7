using System.Diagnostics;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>Gives a partition's batches to the transport, again and again until each is settled. One send at a time.</summary>
internal sealed class PartitionSender : IAsyncDisposable
{
    private readonly DispatchSettings _settings;
    private readonly string _routeName;
    private readonly IBatchTransport _transport;
    private readonly ProducerId _producer;
    private readonly SendDeadline _deadline;
    private readonly RetrySchedule _schedule;
    private readonly Random _random;
    private readonly Func<RoutedBatch, bool> _isTooOld;
    private long _lastNumber;

    // Written by the sender, read by the health check.
    private volatile PartitionFailure? _failure;

    public PartitionSender(DispatchSettings settings, string routeName, IBatchTransport transport, ProducerId producer)
    {
        _settings = settings;
        _routeName = routeName;
        _transport = transport;
        _producer = producer;
        _deadline = new SendDeadline(settings.TimeProvider, settings.Options.SendTimeout);
        _schedule = new RetrySchedule(settings.Options.RetryDelay, settings.Options.MaxRetryDelay);
        _random = new Random(settings.RandomSeed ^ producer.Lane);
        _isTooOld = batch => settings.Clock.AgeOf(batch.Content.QueuedAt) >= settings.Options.DeliveryTimeout;
        Send = new OutgoingSend(Counters);
    }

    public PartitionCounters Counters { get; } = new();

    public OutgoingSend Send { get; }

    public PartitionFailure? Failure => _failure;

    /// <summary>True once the drain limit has passed: nothing more is sent.</summary>
    public bool IsAborted => _deadline.IsAborted;

    /// <summary>Sends what was taken; completes when each of its batches is settled.</summary>
    public ValueTask SendAsync()
    {
        Seal();
        Send.Number(_producer, ref _lastNumber);
        if (_settings.Metrics.IsObservingSends || BatchKitTracing.IsListening)
            return FinishAsync(new SendObservation(_settings, _routeName, Send));
        var pending = BeginSend();
        if (!pending.IsCompletedSuccessfully)
            return FinishAsync(pending);
        pending.GetAwaiter().GetResult();
        Complete();
        return default;
    }

    /// <summary>Seals what was taken and still took unscoped writes.</summary>
    public void Seal()
    {
        var sealedHere = Send.EnsureSealed();
        if (sealedHere > 0)
            Counters.CountUnscoped(sealedHere);
    }

    public void Abort() => _deadline.Abort();

    public void Drop() => Send.SettleAll(Settled.Stopped, failure: null);

    public ValueTask DisposeAsync() => _deadline.DisposeAsync();

    private async ValueTask FinishAsync(SendObservation observation)
    {
        using (observation)
            await FinishAsync(BeginSend(), observation).ConfigureAwait(false);
    }

    private async ValueTask FinishAsync(ValueTask pending, SendObservation? observation = null)
    {
        while (true)
        {
            var failure = await WaitAsync(pending).ConfigureAwait(false);
            if (failure is null)
            {
                observation?.Succeed();
                Complete();
                return;
            }

            observation?.Fail(failure);
            if (!await PrepareRetryAsync(failure).ConfigureAwait(false))
                return;
            pending = BeginSend();
        }
    }

    private ValueTask BeginSend()
    {
        Counters.CountSend();
        try
        {
            return _transport.SendAsync(Send.Batches, _deadline.Token);
        }
        catch (Exception failure)
        {
            return ValueTask.FromException(failure);
        }
    }

    private void Complete()
    {
        Send.SettleAll(Settled.Acknowledged, failure: null);
        if (_failure is { } failure)
            Recover(failure);
    }

    private async ValueTask<Exception?> WaitAsync(ValueTask pending)
    {
        try
        {
            if (pending.IsCompleted)
            {
                await pending.ConfigureAwait(false);
                return null;
            }

            var send = pending.AsTask();
            if (await _deadline.WaitAsync(send).ConfigureAwait(false))
            {
                await send.ConfigureAwait(false);
                return null;
            }

            Send.Abandon(send);
            return TookTooLong("and did not end when its token was cancelled", cause: null);
        }
        catch (OperationCanceledException canceled) when (!_deadline.IsAborted)
        {
            return TookTooLong("and was cancelled", canceled);
        }
        catch (Exception failure)
        {
            return failure;
        }
    }

    private TimeoutException TookTooLong(string what, Exception? cause) =>
        new($"A send took longer than {nameof(OutputBufferOptions.SendTimeout)} ({_settings.Options.SendTimeout}) {what}.", cause);

    /// <summary>Settles what is decided and waits until the rest may be sent again.</summary>
    /// <returns>False when nothing is left to send.</returns>
    private async ValueTask<bool> PrepareRetryAsync(Exception failure)
    {
        Counters.CountFailedSend();
        var decided = Send.SettleDecided(failure, _isTooOld);
        if (decided.Refused > 0)
            _settings.Logger.BatchesRefused(_routeName, decided.Refused, failure);
        if (decided.GivenUp > 0)
            _settings.Logger.BatchesGivenUp(_routeName, decided.GivenUp, _settings.Options.DeliveryTimeout, failure);
        if (Send.Count == 0 && decided.GivenUp == 0)
        {
            // Acknowledged or refused, each one was answered: the route works.
            if (_failure is { } past)
                Recover(past);
            return false;
        }

        var attempts = decided.Acknowledged > 0 ? 1 : (_failure?.Attempts ?? 0) + 1;
        _failure = new PartitionFailure(_failure?.Since ?? _settings.TimeProvider.GetTimestamp(), attempts, failure);
        if (attempts == 1)
            _settings.Logger.SendFailed(_routeName, Send.Count, failure);
        try
        {
            if (!_deadline.IsAborted)
                await Task.Delay(_schedule.DelayAfter(attempts, _random), _settings.TimeProvider, _deadline.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            Debug.Assert(_deadline.IsAborted, "Between sends only the drain limit cancels.");
        }

        if (_deadline.IsAborted)
            Drop();
        return Send.Count > 0;
    }

    private void Recover(PartitionFailure failure)
    {
        _failure = null;
        _settings.Logger.SendRecovered(_routeName, failure.Attempts, _settings.TimeProvider.GetElapsedTime(failure.Since));
    }
}
