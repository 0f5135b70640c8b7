using BatchKit;
using BatchKit.Transports;

namespace TickLoop;

/// <summary>A next hop that prints and counts the sends. One send is under way at a time, so it needs no lock.</summary>
internal sealed class PrintingTransport : IBatchTransport
{
    public int Messages { get; private set; }

    public int Sends { get; private set; }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var messages = 0;
        foreach (var batch in batches.Span)
            messages += batch.Count;
        Messages += messages;
        Sends++;
        return new(Console.Out.WriteLineAsync($"  send {Sends}: {messages} messages"));
    }
}
