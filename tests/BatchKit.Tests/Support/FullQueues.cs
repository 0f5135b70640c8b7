using System.Text;
using BatchKit.Transports;

namespace BatchKit.Tests.Support;

/// <summary>A broker with a queue for each of three nodes, some of which are full. A receiver drops what it had before.</summary>
internal sealed class FullQueues
{
    private readonly Dictionary<int, List<(long Number, string Text)>> _queues = new() { [1] = [], [2] = [], [3] = [] };

    public HashSet<int> Full { get; } = [];

    public int Refusals { get; private set; }

    /// <summary>Called with each refusal's number before the publisher is told of it.</summary>
    public Action<int>? Refusing { get; set; }

    /// <summary>True while the broker can't be reached.</summary>
    public bool IsAway { get; set; }

    public IReadOnlyList<string> Texts(int node) => [.. _queues[node].Select(static message => message.Text)];

    public FrameTransport CreateTransport() => new(PublishAsync, new FrameTransportOptions { PublishesWithoutBlocking = true });

    // Like a fanout exchange: the queues that are not full get the frame, and the publisher is told of those that are.
    private ValueTask PublishAsync(OutgoingFrame frame, CancellationToken cancellationToken)
    {
        if (IsAway)
            throw new IOException("The broker is away.");
        int[] nodes = frame.Destination.IsAll ? [1, 2, 3] : [frame.Destination.Node];
        foreach (var node in nodes.Where(node => !Full.Contains(node)))
            Receive(_queues[node], frame.Bytes);
        if (!nodes.Any(Full.Contains))
            return ValueTask.CompletedTask;
        Refusals++;
        Refusing?.Invoke(Refusals);
        throw new FrameNotTakenException($"The queue of node {nodes.First(Full.Contains)} is full.");
    }

    private static void Receive(List<(long Number, string Text)> queue, ReadOnlyMemory<byte> frame)
    {
        using var received = FrameReader.Read(frame);
        foreach (var batch in received.Batches.Span)
        {
            if (queue.Count > 0 && queue[^1].Number >= batch.Number)
                continue;
            for (var index = 0; index < batch.Count; index++)
                queue.Add((batch.Number, Encoding.UTF8.GetString(batch[index].Payload.Span)));
        }
    }
}
