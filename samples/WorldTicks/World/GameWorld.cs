using System.Buffers;
using System.Text.Json;
using BatchKit.Postgres;
using WorldTicks.Hosting;

namespace WorldTicks.World;

/// <summary>NPCs and regions, which have tasks in each tick. One thread ticks; any thread may read the counters.</summary>
internal sealed class GameWorld(IOutputBuffer output, TicksOptions options) : IDisposable
{
    private const int LooksOneIn = 10;
    private const int WakesOneIn = 10;
    private const int MostShouts = 3;

    // Headers that are the same for many messages are created once.
    private readonly MessageHeader[] _wakes = [.. Enumerable.Range(1, 3).Select(seconds => QueueMessageHeader.Create(delay: TimeSpan.FromSeconds(seconds)))];
    private readonly MessageHeader[] _regions = [.. Enumerable.Range(1, options.Regions).Select(region => QueueMessageHeader.Create(key: $"region-{region}"))];

    private readonly ArrayBufferWriter<byte> _payload = new();
    private readonly Utf8JsonWriter _json = new(Stream.Null);
    private readonly Random _random = new();
    private long _ticks;
    private long _tasks;
    private long _shouts;
    private long _poisoned;

    /// <summary>A number that distinguishes this world's tasks from those of other worlds in the same tables.</summary>
    public int Run { get; } = Random.Shared.Next();

    public long Ticks => Volatile.Read(ref _ticks);

    /// <summary>The number of tasks that were written, each counted once.</summary>
    public long Tasks => Volatile.Read(ref _tasks);

    /// <summary>The number of repeated messages, whose task was in the queue already.</summary>
    public long Shouts => Volatile.Read(ref _shouts);

    /// <summary>The number of written tasks that always fail.</summary>
    public long Poisoned => Volatile.Read(ref _poisoned);

    /// <summary>Writes a tick's tasks. They are sent when the scope closes. Closing it does not wait for the server, so the world goes on during an outage until the buffer is full.</summary>
    public async ValueTask TickAsync(CancellationToken cancellationToken)
    {
        using (output.BeginBufferingScope())
        {
            for (var npc = 1; npc <= options.Npcs; npc++)
                await WriteNpcAsync(npc, cancellationToken);
            for (var region = 1; region <= options.Regions; region++)
                await WriteAsync(TaskQueues.WeatherHandle, NextTask(TaskKind.Weather, region, Ticks + 1), _regions[region - 1], cancellationToken);
        }

        Volatile.Write(ref _ticks, _ticks + 1);
    }

    public void Dispose() => _json.Dispose();

    private async ValueTask WriteNpcAsync(int npc, CancellationToken cancellationToken)
    {
        if (OneIn(options.PoisonedOneIn))
        {
            await WriteAsync(TaskQueues.NpcHandle, NextTask(TaskKind.FallOffTheMap, npc), header: null, cancellationToken);
            Volatile.Write(ref _poisoned, _poisoned + 1);
        }
        else if (OneIn(LooksOneIn))
        {
            await WriteLookAsync(npc, cancellationToken);
        }
        else if (OneIn(WakesOneIn))
        {
            await WriteAsync(TaskQueues.NpcHandle, NextTask(TaskKind.Wake, npc), _wakes[_random.Next(_wakes.Length)], cancellationToken);
        }
        else
        {
            await WriteAsync(TaskQueues.NpcHandle, NextTask(OneIn(2) ? TaskKind.Walk : TaskKind.Talk, npc), header: null, cancellationToken);
        }
    }

    // Several shouts in a tick make the NPC look once: the queue keeps the first task, and drops the others, which have the same key.
    private async ValueTask WriteLookAsync(int npc, CancellationToken cancellationToken)
    {
        var header = QueueMessageHeader.Create(uniqueKey: $"look/{Run}/{npc}/{Ticks}");
        var task = NextTask(TaskKind.Look, npc);
        await WriteAsync(TaskQueues.NpcHandle, task, header, cancellationToken);
        for (var shouts = _random.Next(MostShouts); shouts > 0; shouts--)
        {
            await output.WriteAsync(TaskQueues.NpcHandle, _payload.WrittenMemory, header, cancellationToken);
            Volatile.Write(ref _shouts, _shouts + 1);
        }
    }

    private WorldTask NextTask(TaskKind kind, int subject, long step = 0) => new(kind, subject, step, _tasks + 1, Run);

    private async ValueTask WriteAsync(OutputHandle handle, WorldTask task, MessageHeader? header, CancellationToken cancellationToken)
    {
        _payload.ResetWrittenCount();
        _json.Reset(_payload);
        task.WriteTo(_json);
        await _json.FlushAsync(cancellationToken);
        await output.WriteAsync(handle, _payload.WrittenMemory, header, cancellationToken);
        // Counted after the write: a write that was cancelled while the buffer was full added no task, and the next task gets its number.
        Volatile.Write(ref _tasks, _tasks + 1);
    }

    private bool OneIn(int number) => number > 0 && _random.Next(number) == 0;
}
