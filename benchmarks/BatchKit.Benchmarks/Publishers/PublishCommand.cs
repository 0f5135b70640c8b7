using System.Diagnostics;
using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.Publishers;

/// <summary><c>publish way</c>: one way to publish, in a process of its own.</summary>
/// <remarks>It takes <c>run messages target</c> and <c>paced ticks target</c>, and answers when it began and ended, what processor time it used and what it allocated.</remarks>
internal sealed class PublishCommand(PublishWay way) : IAsyncDisposable
{
    /// <summary>20,000 messages a second, as often as a game's loop turns.</summary>
    public const int MessagesPerTick = 160;
    public static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(8);

    private readonly ControlPipe _pipe = new();
    private readonly Dictionary<PublishTarget, IPublishWay[]> _ways = [];

    public static async Task<int> RunAsync(PublishWay way)
    {
        await using var command = new PublishCommand(way);
        command._pipe.Reply(0);
        while (command.ReadCommand() is { Amount: > 0 } order)
            await command.ObeyAsync(order.Target, order.Amount, order.IsPaced);
        return 0;
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var publisher in _ways.Values.SelectMany(static publishers => publishers))
            await publisher.DisposeAsync();
    }

    private (PublishTarget Target, int Amount, bool IsPaced) ReadCommand()
    {
        var command = _pipe.Read();
        return (PublishTarget.Read(command), (int)ControlPipe.NumberAt(command, 1), ControlPipe.WordAt(command, 0).SequenceEqual("paced"u8));
    }

    private async Task ObeyAsync(PublishTarget target, int amount, bool isPaced)
    {
        if (!_ways.TryGetValue(target, out var publishers))
            _ways[target] = publishers = [.. Enumerable.Range(0, RunSettings.Clients ?? 1).Select(_ => PublishWays.Make(way, target))];
        var (allocated, processor) = (GC.GetTotalAllocatedBytes(precise: true), Environment.CpuUsage.TotalTime);
        var began = Stopwatch.GetTimestamp();
        if (isPaced)
            await PublishPacedAsync((IPacedWay)publishers[0], amount);
        else
            await PublishAsync(publishers, amount);
        var ended = Stopwatch.GetTimestamp();
        var used = Environment.CpuUsage.TotalTime - processor;
        _pipe.Reply(began, ended, (long)used.TotalNanoseconds, GC.GetTotalAllocatedBytes(precise: true) - allocated);
    }

    private static Task PublishAsync(IPublishWay[] publishers, int messages) => publishers is [var only]
        ? only.PublishAsync(messages)
        : Task.WhenAll(publishers.Select((publisher, index) =>
            Task.Run(() => publisher.PublishAsync((int)(((long)messages * (index + 1) / publishers.Length) - ((long)messages * index / publishers.Length))))));

    /// <summary>A tick's messages are due at its time, whenever its thread wakes up.</summary>
    private static async Task PublishPacedAsync(IPacedWay publisher, int ticks)
    {
        var began = Stopwatch.GetTimestamp();
        for (var tick = 1; tick <= ticks; tick++)
        {
            var due = tick * Tick;
            if (due - Stopwatch.GetElapsedTime(began) is { Ticks: > 0 } wait)
                Thread.Sleep(wait);
            publisher.Start(MessagesPerTick, began + (long)(due.TotalSeconds * Stopwatch.Frequency));
        }

        await publisher.FinishAsync();
    }
}
