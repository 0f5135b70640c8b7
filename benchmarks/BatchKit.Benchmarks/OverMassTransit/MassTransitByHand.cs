using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverMassTransit;

/// <summary>A list's lines copied into one array and published once: the floor.</summary>
internal sealed class MassTransitByHand(MassTransitEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        var publishes = new Task[lists];
        for (var list = 0; list < lists; list++)
        {
            var bytes = new byte[Lines.TotalBytes];
            Lines.CopyTo(bytes);
            publishes[list] = ends.PublishAsync(bytes).AsTask();
        }

        await Task.WhenAll(publishes);
        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
