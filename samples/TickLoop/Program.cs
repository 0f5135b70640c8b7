using System.Threading.Channels;
using BatchKit;
using BatchKit.Transports;

var limit = TimeSpan.FromMilliseconds(50);
var room = OutputHandle.Named("room/tower");
OutputHandle[] players = [.. Enumerable.Range(1, 3).Select(sequence => OutputHandle.Connection(node: 0, sequence))];
await RunAsync("tick loop", RunTicksAsync);
await RunAsync("command queue", RunQueueAsync);

async Task RunTicksAsync(OutputBuffer output)
{
    await using var tick = output.BeginBufferingScope(limit);
    for (var step = 1; step <= 100; step++)
    {
        output.Write(room, $"The clock strikes {step}.\r\n");
        foreach (var player in players)
            output.Write(player, $"You count {step}.\r\n");
        await Task.Delay(5);
    }
}

async Task RunQueueAsync(OutputBuffer output)
{
    var queue = Channel.CreateUnbounded<Func<ValueTask>>();
    QueueDoList(output, players[0], iterations: 200, queue.Writer);
    queue.Writer.Complete();
    await foreach (var command in queue.Reader.ReadAllAsync())
        await command();
}

void QueueDoList(OutputBuffer output, OutputHandle player, int iterations, ChannelWriter<Func<ValueTask>> queue)
{
    var scope = output.BeginBufferingScope(player, limit);
    for (var iteration = 1; iteration <= iterations; iteration++)
    {
        var line = $"line {iteration}\r\n";
        queue.TryWrite(async () =>
        {
            output.Write(player, line);
            await Task.Delay(2);
        });
    }

    queue.TryWrite(scope.DisposeAsync);
}

async Task RunAsync(string name, Func<OutputBuffer, Task> run)
{
    var transport = new CountingTransport();
    await using var output = new OutputBuffer(transport);
    await run(output);
    await Console.Out.WriteLineAsync($"{name}: {transport.Messages} messages in {transport.Sends} sends");
}

internal sealed class CountingTransport : IBatchTransport
{
    public int Messages { get; private set; }

    public int Sends { get; private set; }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
            Messages += batch.Count;
        Sends++;
        return default;
    }
}
