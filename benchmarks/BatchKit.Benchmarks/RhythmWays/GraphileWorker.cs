using BatchKit.Benchmarks.Children;
using BatchKit.Benchmarks.Rhythm;
using Npgsql;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>The peer: graphile-worker with its local queue and its batched completion, in a process of its own.</summary>
internal sealed class GraphileWorker : IRhythmWay
{
    private const string Jobs = "graphile_worker._private_jobs";

    // Through add_job a hundred thousand would take a minute.
    private const string Fill = $"""
        insert into {Jobs} (task_id, payload)
        select id, json_build_object('index', number, 'text', repeat('x', $2)) from graphile_worker._private_tasks, generate_series(0, $1 - 1) number where identifier = 'task'
        """;

    private readonly RhythmStage _stage;
    private readonly ChildProcess _process;

    public GraphileWorker(RhythmStage stage, GraphileProgram program)
    {
        _stage = stage;
        _process = ChildProcess.StartProgram(GraphileProgram.NodePath, program.ScriptPath, stage.Address.ToString());
        _process.Read();
    }

    public async Task PrepareAsync(int tasks)
    {
        await _stage.ExecuteAsync($"truncate {Jobs}");
        await using var command = _stage.DataSource.CreateCommand(Fill);
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = tasks });
        command.Parameters.Add(new NpgsqlParameter<int> { TypedValue = TaskPayload.Bytes });
        await command.ExecuteNonQueryAsync();
        await _stage.SettleAsync(Jobs);
    }

    public Task<TimeSpan> RunAsync(int tasks) => _process.Ask($"drain {tasks} {Workers.Count}") is [var once, var handled, var nanoseconds] && once == tasks && handled == tasks
        ? Task.FromResult(TimeSpan.FromMicroseconds(nanoseconds / 1000d))
        : throw new InvalidOperationException($"graphile-worker did not run each of {tasks} jobs once.");

    public Task CheckAsync(int tasks) => _stage.RequireEmptyAsync(Jobs);

    public ValueTask DisposeAsync()
    {
        _process.Dispose();
        return default;
    }
}
