using System.Globalization;
using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Ordered;

/// <summary>Workers of an ordered queue that do at random what workers may do, and a model of what each key still has to come.</summary>
internal sealed class ShardRun(OrderedQueue queue, int seed)
{
    private const int Workers = 4;
    private const int Keys = 7;

    private readonly Random _random = new(seed);
    private readonly Claim?[] _held = new Claim?[Workers];
    private readonly HashSet<Claim> _ended = [];
    private readonly Dictionary<string, int> _added = [];
    private readonly Dictionary<string, List<int>> _left = [];

    /// <summary>How many messages were completed, buried, and given back by leases that ended: a run in which nothing happens proves nothing.</summary>
    public (int Completed, int Buried, int Ended) Seen { get; private set; }

    public async Task StepAsync()
    {
        var worker = _random.Next(Workers);
        switch (_random.Next(10))
        {
            case < 3:
                await AddAsync();
                break;
            case < 8:
                await WorkAsync(worker);
                break;
            case 8:
                await queue.MakeDueAsync();
                break;
            default:
                await EndLeasesAsync();
                break;
        }
    }

    /// <summary>Lets the workers do all that is left, and checks that nothing stays.</summary>
    public async Task DrainAsync()
    {
        await EndLeasesAsync();
        while (_left.Values.Any(left => left.Count > 0))
        {
            await queue.MakeDueAsync();
            await queue.EndTurnsAsync();
            for (var worker = 0; worker < Workers; worker++)
                await WorkAsync(worker, failsAtTimes: false);
        }

        Assert.Empty(await queue.StoredAsync());
    }

    private async Task AddAsync()
    {
        var messages = new List<string>();
        for (var count = _random.Next(1, 8); count > 0; count--)
        {
            var key = $"key {_random.Next(Keys)}";
            var number = _added[key] = _added.GetValueOrDefault(key) + 1;
            (_left.TryGetValue(key, out var left) ? left : _left[key] = []).Add(number);
            messages.Add($"{key}:{number}");
        }

        await queue.AddAsync([.. messages]);
    }

    private async Task WorkAsync(int worker, bool failsAtTimes = true)
    {
        var settled = _held[worker];
        if (settled is not null && failsAtTimes)
            SayOf(settled);
        var exchange = await queue.ExchangeAsync(settled is null ? [] : [settled]);
        if (settled is not null)
        {
            Assert.Equal(_ended.Contains(settled), exchange.Refused.Count > 0);
            if (exchange.Refused.Count == 0)
                Apply(settled);
        }

        _held[worker] = exchange.Taken.SingleOrDefault();
        if (_held[worker] is { } taken)
            CheckTaken(taken);
    }

    private void SayOf(Claim claim)
    {
        foreach (var message in claim.Batch)
        {
            switch (_random.Next(12))
            {
                case 0:
                    message.Retry("at random", TimeSpan.FromHours(_random.Next(2)));
                    break;
                case 1:
                    message.Refuse("at random");
                    break;
                case 2:
                    message.Release();
                    break;
            }
        }
    }

    // What nothing was said of is done, and must be its key's first then.
    private void Apply(Claim claim)
    {
        var seen = Seen;
        foreach (var message in claim.Batch)
        {
            var (left, number) = (_left[message.Key!], NumberOf(message));
            if (message.Outcome is null)
            {
                Assert.Equal(number, left[0]);
                seen.Completed++;
                left.RemoveAt(0);
            }
            else if (message.Outcome == MessageOutcome.Dead)
            {
                seen.Buried++;
                Assert.True(left.Remove(number));
            }
        }

        Seen = seen;
    }

    // A claim has the first of each of its keys, without gaps, and no key that another live one has.
    private void CheckTaken(Claim taken)
    {
        foreach (var key in taken.Batch.GroupBy(message => message.Key!))
        {
            Assert.Equal(_left[key.Key].Take(key.Count()), key.Select(NumberOf));
            Assert.DoesNotContain(_held, held => held is not null && held != taken && !_ended.Contains(held) && held.Batch.Any(message => message.Key == key.Key));
        }

        Assert.True(taken.Batch.Count == 1 || taken.Batch.All(message => message.Attempt == 1));
    }

    private async Task EndLeasesAsync()
    {
        await queue.ExpireAsync();
        var live = _held.Where(held => held is not null && !_ended.Contains(held)).Select(held => held!).ToArray();
        var upkeep = await queue.UpkeepAsync();
        _ended.UnionWith(live);
        Assert.Equal(live.Sum(held => held.Batch.Count), upkeep.Returned + upkeep.Buried);
        Seen = (Seen.Completed, Seen.Buried, Seen.Ended + upkeep.Returned);
    }

    private static int NumberOf(QueueMessage message) => int.Parse(OrderedQueue.Text(message), CultureInfo.InvariantCulture);
}
