using BatchKit;
using BatchKit.Transports;

var player = OutputHandle.Connection(node: 0, sequence: 1);
await using var output = new OutputBuffer(new ConsoleTransport());
await using (output.BeginBufferingScope(player))
    for (var line = 1; line <= 1000; line++)
        output.Write(player, $"line {line}\r\n");

internal sealed class ConsoleTransport : IBatchTransport
{
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) =>
        new(Console.Out.WriteLineAsync($"{batches.Length} batch with {batches.Span[0].Count} messages"));
}
