using System.Text.Json;

namespace SensorHub.World;

/// <summary>The part of a payload that measures its arrival; the value is beside it.</summary>
/// <param name="Number">The number of the change within its topic, from 1.</param>
/// <param name="At">The time of the change, in microseconds of <see cref="RunClock"/>.</param>
/// <param name="Run">The run that made the change, because another hub may use the same broker.</param>
internal readonly record struct ChangeMark(long Number, long At, int Run)
{
    public void WriteTo(Utf8JsonWriter json)
    {
        json.WriteNumber("number"u8, Number);
        json.WriteNumber("at"u8, At);
        json.WriteNumber("run"u8, Run);
    }

    /// <summary>Reads a payload's mark.</summary>
    /// <returns>False when the payload is not of a hub.</returns>
    public static bool TryRead(ReadOnlySpan<byte> payload, out ChangeMark mark)
    {
        mark = default;
        try
        {
            var json = new Utf8JsonReader(payload);
            while (json.Read())
            {
                if (json.TokenType != JsonTokenType.PropertyName)
                    continue;
                if (json.ValueTextEquals("number"u8))
                    mark = mark with { Number = ReadNumber(ref json) };
                else if (json.ValueTextEquals("at"u8))
                    mark = mark with { At = ReadNumber(ref json) };
                else if (json.ValueTextEquals("run"u8))
                    mark = mark with { Run = (int)ReadNumber(ref json) };
            }

            return mark.Number > 0;
        }
        catch (Exception exception) when (exception is JsonException or InvalidOperationException)
        {
            return false;
        }
    }

    private static long ReadNumber(ref Utf8JsonReader json) =>
        json.Read() && json.TokenType == JsonTokenType.Number && json.TryGetInt64(out var number) ? number : throw new JsonException();
}
