using BatchKit.Benchmarks.Dolist;

namespace BatchKit.Benchmarks.OverBatchKit;

/// <summary>A scope around each list.</summary>
internal sealed class BatchKitScoped(BatchKitEnds ends) : IDolist
{
    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            using (ends.Output.BeginBufferingScope(ends.Player))
            {
                foreach (var line in Lines.All)
                    ends.Output.Write(ends.Player, line);
            }
        }

        await ends.Output.FlushAsync(ends.Player);
        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
