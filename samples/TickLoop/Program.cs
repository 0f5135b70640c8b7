using System.Threading.Channels;
using BatchKit;
using TickLoop;

var limit = TimeSpan.FromMilliseconds(50);
var room = OutputHandle.Named("room/tower");
OutputHandle[] players = [.. Enumerable.Range(1, 3).Select(sequence => OutputHandle.Connection(node: 0, sequence))];
var ticksAreFew = await CheckAsync("tick loop", RunTicksAsync);
var queueIsFew = await CheckAsync("command queue", RunQueueAsync);
return ticksAreFew && queueIsFew ? 0 : 1;

// The scope stays open for the whole loop. What it gathers leaves every 50 ms.
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

// The list is queued here; another task runs its commands later, one after another.
async Task RunQueueAsync(OutputBuffer output)
{
    var queue = Channel.CreateUnbounded<Func<ValueTask>>();
    var worker = Task.Run(async () =>
    {
        await foreach (var command in queue.Reader.ReadAllAsync())
            await command();
    });

    QueueDoList(output, players[0], iterations: 200, queue.Writer);
    queue.Writer.Complete();
    await worker;
}

// Like @dolist, it only queues its iterations. The last command in the queue closes the scope.
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

// The limit starts at the first message that the scope holds, so there is at most one send in each 50 ms, and one at the end.
async Task<bool> CheckAsync(string name, Func<OutputBuffer, Task> run)
{
    var transport = new PrintingTransport();
    await using var output = new OutputBuffer(transport);
    var started = TimeProvider.System.GetTimestamp();
    await run(output);
    var most = (int)(TimeProvider.System.GetElapsedTime(started) / limit) + 1;
    await Console.Out.WriteLineAsync($"{name}: {transport.Messages} messages in {transport.Sends} sends (at most {most})");
    return transport.Sends <= most;
}
