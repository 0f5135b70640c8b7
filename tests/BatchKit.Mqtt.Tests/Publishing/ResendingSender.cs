using System.Globalization;
using BatchKit.Mqtt.Publishing;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>Sends like dispatch: one send at a time, and what a cancelled one left goes again, unchanged, before anything newer; sometimes first its first part only.</summary>
internal sealed class ResendingSender(PublishQueue queue, Random random, int topics)
{
    private readonly ProducerId _producer = Some.Producer();
    private MessageBatch[] _batches = [];
    private MessageBatch[] _sent = [];
    private Task? _sending;
    private CancellationTokenSource _cancellation = new();
    private long _number;

    public int Written { get; private set; }

    public async Task StepAsync()
    {
        if (_sending is null)
        {
            if (_batches.Length == 0)
                _batches = [.. Enumerable.Range(0, random.Next(1, 5)).Select(_ => MakeBatch())];
            Send();
        }
        else if (random.Next(60) == 0)
        {
            await _cancellation.CancelAsync();
            await SettleAsync();
        }
        else if (queue.GetStatistics() is var statistics && statistics.AcceptedMessages == statistics.AcknowledgedMessages + statistics.RefusedMessages)
        {
            // Its task ends on the thread pool: a run that did not wait for that would depend on the machine.
            await SettleAsync();
        }
    }

    /// <param name="serve">Serves the queue; false when it had nothing to write, so that its sends have ended or never will.</param>
    public async Task FinishAsync(Func<bool> serve)
    {
        while (_batches.Length > 0)
        {
            if (_sending is null)
                Send();
            if (!serve())
                await SettleAsync();
        }
    }

    private MessageBatch MakeBatch()
    {
        var topic = OutputHandle.Named($"topic/{random.Next(topics)}");
        var texts = Enumerable.Range(0, random.Next(1, 20)).Select(_ => (Written++).ToString(CultureInfo.InvariantCulture)).ToArray();
        return Some.Batch(topic, _producer, ++_number, texts);
    }

    private void Send()
    {
        _cancellation.Dispose();
        _cancellation = new CancellationTokenSource();
        _sent = _batches[..random.Next(1, _batches.Length + 1)];
        _sending = queue.SendAsync(_sent, _cancellation.Token).AsTask();
    }

    private async Task SettleAsync()
    {
        try
        {
            await _sending!.WithinDeadline();
            _batches = _batches[_sent.Length..];
        }
        catch (BatchSendException partial)
        {
            _batches = [.. _batches.Where((_, index) => index >= _sent.Length || partial.Outcomes[index] == BatchOutcome.Unacknowledged)];
        }
        catch (Exception exception) when (exception is OperationCanceledException or IOException)
        {
            // Nothing was acknowledged: all of it goes again.
        }

        _sending = null;
    }
}
