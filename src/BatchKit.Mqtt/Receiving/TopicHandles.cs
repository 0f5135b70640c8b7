using System.Text;

namespace BatchKit.Mqtt.Receiving;

/// <summary>The handles of topics that were met lately, so that a topic that comes again allocates nothing. One caller at a time.</summary>
internal sealed class TopicHandles
{
    // 2,048 topics of at most 256 bytes: under 2 MB whatever arrives.
    private const int Slots = 2048;
    private const int MaxKeptTopicBytes = 256;

    private readonly (byte[]? Topic, OutputHandle Handle)[] _slots = new (byte[]?, OutputHandle)[Slots];

    /// <summary>The handle of a topic in UTF-8, checked and not empty.</summary>
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
