using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverBatchKit;

/// <summary>Writes without any scope: what is written during a send goes together in the next one.</summary>
internal sealed class BatchKitUnscoped(BatchKitEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            foreach (var line in Lines.All)
                ends.Output.Write(ends.Player, line);
        }

        await ends.Output.FlushAsync(ends.Player);
        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
