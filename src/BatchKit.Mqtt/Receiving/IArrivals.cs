using System.Buffers;
using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Receiving;

/// <summary>Collects the PUBLISH packets of one read and delivers them together. Not thread-safe.</summary>
internal interface IArrivals
{
    int Count { get; }

    /// <summary>Copies the content of a PUBLISH.</summary>
    void Add(in ReceivedPublish publish);

    /// <summary>Drops the message at a place among those that were added.</summary>
    void RemoveAt(int index);

    /// <summary>
    /// Delivers everything in order. Completes when the receiver's next hop has accepted it or refused it. The collection is empty afterwards, also after a
    /// failure.
    /// </summary>
    ValueTask DeliverAsync(BatchReceiver receiver, CancellationToken cancellationToken);

    /// <summary>Drops everything that was collected.</summary>
    void Clear();
}

/// <summary>Messages on any topics: consecutive messages on one topic become a batch for the handle with that name. The batches are numbered here.</summary>
internal sealed class TopicArrivals(int node, ReceiverLog log, HeldFrame held) : IArrivals
{
    // A frame's reader refuses more than 65,536 batches.
    private const int MaxBatchesInFrame = 4096;

    // Enough for a read of small packets; larger memory is returned after use.
    private const int KeptBytes = 64 * 1024;

    private static readonly MessageHeader Retained = new() { IsRetained = true };

    private readonly ProducerId _producer = new(node, MemoryMarshal.Read<long>(RandomNumberGenerator.GetBytes(sizeof(long))), Partition: 0);
    private readonly ObserverFaults _faults = log.Logger.Faults;
    private readonly TopicHandles _handles = new();
    private readonly List<(OutputHandle Handle, int Start, int Length, MessageHeader? Header)> _messages = [];
    private readonly List<BatchMessage> _run = [];
    private readonly List<MessageBatch> _batches = [];
    private byte[] _payloads = [];
    private int _payloadBytes;
    private long _lastNumber;

    public int Count => _messages.Count;

    public void Add(in ReceivedPublish publish)
    {
        EnsureCapacity(publish.Payload.Length);
        publish.Payload.CopyTo(_payloads.AsSpan(_payloadBytes));
        _messages.Add((_handles.Get(publish.Topic), _payloadBytes, publish.Payload.Length, CreateHeader(publish)));
        _payloadBytes += publish.Payload.Length;
    }

    public void RemoveAt(int index) => _messages.RemoveAt(index);

    public async ValueTask DeliverAsync(BatchReceiver receiver, CancellationToken cancellationToken)
    {
        try
        {
            var allowed = _messages.Count;
            for (var (first, next) = (0, 0); first < _messages.Count; first = next)
            {
                _batches.Clear();
                for (next = first; next < Math.Min(_messages.Count, first + allowed) && _batches.Count < MaxBatchesInFrame;)
                    next = AddBatch(next, first + allowed);
                try
                {
                    await DeliverBatchesAsync(receiver, cancellationToken).ConfigureAwait(false);
                }
                catch (FrameFormatException) when (next > first + 1)
                {
                    // The messages together, or one of them, exceed the receiver's limits. From here on each is delivered alone.
                    (allowed, next) = (1, first);
                }
                catch (FrameFormatException exception)
                {
                    Log.MessageDropped(log, exception, MqttTopics.Show(_messages[first].Handle.Name!), _messages[first].Length);
                }
            }
        }
        finally
        {
            Clear();
        }
    }

    public void Clear()
    {
        _messages.Clear();
        _run.Clear();
        _batches.Clear();
        _payloadBytes = 0;
        if (_payloads.Length <= 2 * KeptBytes)
            return;
        ArrayPool<byte>.Shared.Return(_payloads);
        _payloads = [];
    }

    private static MessageHeader? CreateHeader(in ReceivedPublish publish)
    {
        var hasProperties = publish.HasUserProperties || !publish.ContentType.IsEmpty || !publish.ResponseTopic.IsEmpty || !publish.CorrelationData.IsEmpty;
        if (!hasProperties)
            return publish.Retain ? Retained : null;
        return new MessageHeader
        {
            ContentType = publish.ContentType.IsEmpty ? null : Encoding.UTF8.GetString(publish.ContentType),
            ReplyTo = publish.ResponseTopic.IsEmpty ? null : Encoding.UTF8.GetString(publish.ResponseTopic),
            CorrelationData = [.. publish.CorrelationData],
            IsRetained = publish.Retain,
            Properties = publish.HasUserProperties ? UserProperties.Read(publish.Properties) : [],
        };
    }

    // If the messages have exactly one trace, the span of the delivery is a child of the span that published. A frame can't carry several traces or a trace state; then a separate span links to them.
    private async ValueTask DeliverBatchesAsync(BatchReceiver receiver, CancellationToken cancellationToken)
    {
        ActivityContext[] traces = BatchKitTracing.IsListening ? [.. _batches.SelectMany(ReadTraces).Distinct()] : [];
        var fitsFrame = traces is [{ TraceState: null }];
        using var span = traces.Length > 0 && !fitsFrame ? DeliverySpan.Start("mqtt", queue: null, _batches.Sum(static batch => batch.Count), traces, _faults) : null;
        using var frame = PooledFrame.Encode(CollectionsMarshal.AsSpan(_batches), signer: null, fitsFrame ? traces[0] : default);
        await held.WatchAsync(receiver.ReceiveAsync(frame.Bytes, cancellationToken)).ConfigureAwait(false);
    }

    private static IEnumerable<ActivityContext> ReadTraces(MessageBatch batch)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (TraceContext.Read(batch[index].Header) is var trace && trace != default)
                yield return trace;
        }
    }

    // Returns the index at which the next batch starts.
    private int AddBatch(int first, int end)
    {
        var handle = _messages[first].Handle;
        _run.Clear();
        var next = first;
        for (; next < Math.Min(_messages.Count, end) && _messages[next].Handle == handle; next++)
        {
            var message = _messages[next];
            _run.Add(new BatchMessage(_payloads.AsMemory(message.Start, message.Length), message.Header));
        }

        _batches.Add(MessageBatch.Create(handle, _producer, ++_lastNumber, CollectionsMarshal.AsSpan(_run)));
        return next;
    }

    private void EnsureCapacity(int bytes)
    {
        if (_payloads.Length - _payloadBytes >= bytes)
            return;
        var larger = ArrayPool<byte>.Shared.Rent(Math.Max(KeptBytes, (int)Math.Min(2L * (_payloadBytes + (long)bytes), Array.MaxLength)));
        _payloads.AsSpan(0, _payloadBytes).CopyTo(larger);
        if (_payloads.Length > 0)
            ArrayPool<byte>.Shared.Return(_payloads);
        _payloads = larger;
    }
}

/// <summary>Caches the handles of recent topics, so that a repeated topic allocates nothing. Not thread-safe.</summary>
internal sealed class TopicHandles
{
    // 2,048 topics of at most 256 bytes: always under 2 MB.
    private const int Slots = 2048;
    private const int MaxKeptTopicBytes = 256;

    private readonly (byte[]? Topic, OutputHandle Handle)[] _slots = new (byte[]?, OutputHandle)[Slots];

    /// <summary>The handle of a topic, which must be valid UTF-8 and not empty.</summary>
    public OutputHandle Get(ReadOnlySpan<byte> topic)
    {
        var hash = default(HashCode);
        hash.AddBytes(topic);
        ref var slot = ref _slots[hash.ToHashCode() & (Slots - 1)];
        if (slot.Topic is not null && topic.SequenceEqual(slot.Topic))
            return slot.Handle;
        var handle = OutputHandle.Named(Encoding.UTF8.GetString(topic));
        if (topic.Length <= MaxKeptTopicBytes)
            slot = (topic.ToArray(), handle);
        return handle;
    }
}

/// <summary>Messages that each contain a frame.</summary>
internal sealed class FrameArrivals(ReceiverLog log, HeldFrame held) : IArrivals
{
    private readonly List<(byte[] Array, int Length)> _frames = [];

    public int Count => _frames.Count;

    public void Add(in ReceivedPublish publish)
    {
        var array = ArrayPool<byte>.Shared.Rent(publish.Payload.Length);
        publish.Payload.CopyTo(array);
        _frames.Add((array, publish.Payload.Length));
    }

    public void RemoveAt(int index)
    {
        ArrayPool<byte>.Shared.Return(_frames[index].Array);
        _frames.RemoveAt(index);
    }

    public async ValueTask DeliverAsync(BatchReceiver receiver, CancellationToken cancellationToken)
    {
        try
        {
            foreach (var (array, length) in _frames)
                await DeliverAsync(receiver, array.AsMemory(0, length), cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            Clear();
        }
    }

    public void Clear()
    {
        foreach (var (array, _) in _frames)
            ArrayPool<byte>.Shared.Return(array);
        _frames.Clear();
    }

    private async ValueTask DeliverAsync(BatchReceiver receiver, ReadOnlyMemory<byte> frame, CancellationToken cancellationToken)
    {
        try
        {
            await held.WatchAsync(receiver.ReceiveAsync(frame, cancellationToken)).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            // The frame can never be delivered, and without an acknowledgement the broker would send it again for ever. The receiver has counted it.
            log.FrameUnreadable(frame.Length, exception);
        }
    }
}
