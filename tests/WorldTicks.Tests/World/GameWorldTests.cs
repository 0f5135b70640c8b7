using BatchKit.Postgres;
using BatchKit.Testing;
using WorldTicks.Hosting;
using WorldTicks.World;

namespace WorldTicks.Tests.World;

public sealed class GameWorldTests : IAsyncDisposable
{
    private readonly CollectingTransport _transport = new();
    private readonly OutputBuffer _output;

    public GameWorldTests() => _output = new OutputBuffer(_transport);

    [Fact]
    public async Task A_tick_leaves_in_one_send_with_a_batch_a_queue()
    {
        using var world = new GameWorld(_output, new TicksOptions { Npcs = 50, Regions = 5 });

        await world.TickAsync(CancellationToken.None);
        await _output.FlushAsync();

        Assert.Equal([2], _transport.BatchesOfSends);
        Assert.Equal(55, world.Tasks);
        Assert.Equal(55 + world.Shouts, _transport.MessageCount);
    }

    [Fact]
    public async Task Each_task_has_a_number_of_its_own_and_repeats_share_number_and_key()
    {
        using var world = new GameWorld(_output, new TicksOptions { Npcs = 200, Regions = 5, PoisonedOneIn = 50 });

        for (var tick = 0; tick < 20; tick++)
            await world.TickAsync(CancellationToken.None);
        await _output.FlushAsync();

        var tasks = _transport.Messages.Select(message => (Task: Read(message), UniqueKey: Property(message, QueueMessageHeader.UniqueKeyProperty))).ToArray();
        Assert.Equal(Enumerable.Range(1, 20 * 205).Select(number => (long)number), tasks.Select(pair => pair.Task.Number).Distinct().Order());
        Assert.True(world.Shouts > 0);
        Assert.True(world.Poisoned > 0);
        Assert.Equal(world.Poisoned, tasks.Count(pair => pair.Task.Kind == TaskKind.FallOffTheMap));
        Assert.All(tasks.GroupBy(pair => pair.Task.Number).Where(same => same.Count() > 1), same =>
        {
            Assert.NotNull(same.First().UniqueKey);
            Assert.Single(same.Distinct());
        });
    }

    [Fact]
    public async Task A_regions_weather_has_its_key_and_rising_steps()
    {
        using var world = new GameWorld(_output, new TicksOptions { Npcs = 0, Regions = 3 });

        for (var tick = 0; tick < 4; tick++)
            await world.TickAsync(CancellationToken.None);
        await _output.FlushAsync();

        var weather = _transport.MessagesFor(TaskQueues.WeatherHandle);
        Assert.All(weather.GroupBy(message => message.Header!.Key), region =>
        {
            Assert.Equal($"region-{Read(region.First()).Subject}", region.Key);
            Assert.Equal([1, 2, 3, 4], region.Select(message => Read(message).Step));
        });
        Assert.Equal(12, weather.Count);
    }

    public ValueTask DisposeAsync() => _output.DisposeAsync();

    private static WorldTask Read(CollectedMessage message)
    {
        Assert.True(WorldTask.TryRead(message.Payload, out var task));
        return task;
    }

    private static string? Property(CollectedMessage message, string name) =>
        message.Header?.Properties.FirstOrDefault(property => property.Key == name).Value;
}
