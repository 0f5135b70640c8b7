using System.Buffers;
using System.Text;
using System.Text.Json;
using WorldTicks.World;

namespace WorldTicks.Tests.World;

public sealed class WorldTaskTests
{
    [Fact]
    public void A_task_is_read_as_it_was_written()
    {
        var task = new WorldTask(TaskKind.Weather, Subject: 3, Step: 41, Number: 812, Run: 4711);
        var payload = new ArrayBufferWriter<byte>();
        using (var json = new Utf8JsonWriter(payload))
            task.WriteTo(json);

        Assert.True(WorldTask.TryRead(payload.WrittenSpan, out var read));
        Assert.Equal(task, read);
    }

    [Theory]
    [InlineData("")]
    [InlineData("hello")]
    [InlineData("{}")]
    [InlineData("{\"task\":\"Dance\",\"number\":1}")]
    [InlineData("{\"number\":\"1\"}")]
    public void What_is_not_a_task_is_not_read(string payload) =>
        Assert.False(WorldTask.TryRead(Encoding.UTF8.GetBytes(payload), out _));
}
