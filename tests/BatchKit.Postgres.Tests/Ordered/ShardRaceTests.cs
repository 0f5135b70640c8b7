using System.Collections.Concurrent;
using System.Globalization;
using BatchKit.Postgres.Receiving;
using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

[Trait("Lane", "slow: workers race again and again")]
public sealed class ShardRaceTests(PostgresFixture fixture)
{
    private const int Workers = 8;

    [Theory]
    [InlineData(1)]
    [InlineData(16)]
    public async Task Many_workers_do_each_message_once_and_each_key_in_order(int shards)
    {
        const int keys = 100;
        const int perKey = 50;
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards, options => options.BatchSize = 7);
        await queue.AddAsync([.. Enumerable.Range(0, keys * perKey).Select(number => $"key {number % keys}:{number / keys}")]);
        var handled = new ConcurrentDictionary<string, List<int>>();
        var left = keys * perKey;

        await Task.WhenAll(Enumerable.Range(1, Workers).Select(worker => Task.Run(async () =>
        {
            await using var connection = await queue.Schema.DataSource.OpenConnectionAsync();
            var store = queue.MakeStore($"worker {worker}");
            IReadOnlyList<Claim> held = [];
            while (Volatile.Read(ref left) > 0)
            {
                var exchange = await store.ExchangeAsync(connection, held, new ClaimRequest(1, Retries: 0), CancellationToken.None);
                Assert.Empty(exchange.Refused);
                held = exchange.Taken;
                foreach (var message in held.SelectMany(claim => claim.Batch))
                {
                    var numbers = handled.GetOrAdd(message.Key!, _ => []);
                    lock (numbers)
                        numbers.Add(int.Parse(Text(message), CultureInfo.InvariantCulture));
                    Interlocked.Decrement(ref left);
                }
            }

            await store.ExchangeAsync(connection, held, new ClaimRequest(0, Retries: 0), CancellationToken.None);
        })));

        Assert.Equal(keys, handled.Count);
        Assert.All(handled.Values, numbers => Assert.Equal(Enumerable.Range(0, perKey), numbers));
        Assert.Empty(await queue.StoredAsync());
    }
}
