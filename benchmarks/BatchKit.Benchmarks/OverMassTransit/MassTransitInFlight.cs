using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverMassTransit;

/// <summary>A message a line, with a list's 1000 in flight together.</summary>
internal sealed class MassTransitInFlight(MassTransitEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
            await Task.WhenAll(Lines.All.Select(ends.PublishAsync));
        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
