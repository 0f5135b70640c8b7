namespace BatchKit.Benchmarks.Dolist;

/// <summary>A message a line, with a list's 1000 in flight together.</summary>
internal sealed class InFlight(IDolistEnds ends) : IDolist
{
    private readonly Task[] _publishes = new Task[Lines.Count];

    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            for (var index = 0; index < Lines.Count; index++)
                _publishes[index] = ends.PublishAsync(Lines.All[index]).AsTask();
            await Task.WhenAll(_publishes);
        }

        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
