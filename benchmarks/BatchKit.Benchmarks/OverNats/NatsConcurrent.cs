using BatchKit.Benchmarks.Dolist;
using NATS.Client.JetStream;

namespace BatchKit.Benchmarks.OverNats;

/// <summary>A message a line with the client's PublishConcurrentAsync: a list's 1000 are under way together.</summary>
internal sealed class NatsConcurrent(NatsEnds ends) : IDolist
{
    private readonly NatsJSPublishConcurrentFuture[] _publishes = new NatsJSPublishConcurrentFuture[Lines.Count];

    public async Task RunAsync(int lists)
    {
        var arrived = ends.Arrival.ExpectAsync(lists);
        for (var list = 0; list < lists; list++)
        {
            for (var index = 0; index < Lines.Count; index++)
                _publishes[index] = await ends.BeginPublishAsync(Lines.All[index]);
            foreach (var publish in _publishes)
            {
                await using (publish)
                    (await publish.GetResponseAsync()).EnsureSuccess();
            }
        }

        await arrived;
    }

    public ValueTask DisposeAsync() => ends.DisposeAsync();
}
