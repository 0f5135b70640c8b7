namespace BatchKit.Benchmarks.Dolist;

/// <summary>A message a line, each awaited before the next: what hurt.</summary>
internal sealed class Awaited(IDolistEnds ends) : IDolist
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
