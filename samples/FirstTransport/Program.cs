using BatchKit;
using FirstTransport;

var player = OutputHandle.Connection(node: 0, sequence: 1);
await using var output = new OutputBuffer(new StreamTransport(new() { [player] = Console.OpenStandardOutput() }));
await using (output.BeginBufferingScope(player))
    for (var line = 1; line <= 3; line++)
        output.Write(player, $"line {line}\n");
