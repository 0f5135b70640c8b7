using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverNats;

/// <summary>A message a line, each awaited before the next.</summary>
internal sealed class NatsAwaited(NatsEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            foreach (var line in Lines.All)
                await ends.PublishAsync(line);
        }

        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
