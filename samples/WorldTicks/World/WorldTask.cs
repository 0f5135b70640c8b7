using System.Text.Json;

namespace WorldTicks.World;

/// <summary>A task. Its payload is <c>{"task":"Walk","subject":17,"step":0,"number":812,"run":4711}</c>.</summary>
/// <param name="Kind">The kind of task.</param>
/// <param name="Subject">The number of the NPC or the region.</param>
/// <param name="Step">The number of the step within its region, from 1; 0 for an NPC.</param>
/// <param name="Number">The number of the task within its world, from 1.</param>
/// <param name="Run">The world that wrote the task, because others may use the same tables.</param>
internal readonly record struct WorldTask(TaskKind Kind, int Subject, long Step, long Number, int Run)
{
    public void WriteTo(Utf8JsonWriter json)
    {
        json.WriteStartObject();
        json.WriteString("task"u8, Kind.ToString());
        json.WriteNumber("subject"u8, Subject);
        json.WriteNumber("step"u8, Step);
        json.WriteNumber("number"u8, Number);
        json.WriteNumber("run"u8, Run);
        json.WriteEndObject();
    }

    /// <summary>Reads a payload.</summary>
    /// <returns>False when it is not a task.</returns>
    public static bool TryRead(ReadOnlySpan<byte> payload, out WorldTask task)
    {
        task = default;
        try
        {
            var json = new Utf8JsonReader(payload);
            while (json.Read())
            {
                if (json.TokenType == JsonTokenType.PropertyName)
                    task = ReadProperty(ref json, task);
            }

            return task.Number > 0;
        }
        catch (Exception exception) when (exception is JsonException or InvalidOperationException)
        {
            return false;
        }
    }

    private static WorldTask ReadProperty(ref Utf8JsonReader json, WorldTask task) =>
        json.ValueTextEquals("task"u8) ? task with { Kind = ReadKind(ref json) }
        : json.ValueTextEquals("subject"u8) ? task with { Subject = (int)ReadNumber(ref json) }
        : json.ValueTextEquals("step"u8) ? task with { Step = ReadNumber(ref json) }
        : json.ValueTextEquals("number"u8) ? task with { Number = ReadNumber(ref json) }
        : json.ValueTextEquals("run"u8) ? task with { Run = (int)ReadNumber(ref json) }
        : task;

    private static TaskKind ReadKind(ref Utf8JsonReader json) =>
        json.Read() && json.TokenType == JsonTokenType.String && Enum.TryParse<TaskKind>(json.GetString(), out var kind) ? kind : throw new JsonException();

    private static long ReadNumber(ref Utf8JsonReader json) =>
        json.Read() && json.TokenType == JsonTokenType.Number && json.TryGetInt64(out var number) ? number : throw new JsonException();
}
