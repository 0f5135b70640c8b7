using BatchKit.Batches;
using BatchKit.Tests.Schedules;

namespace BatchKit.Tests.Buffering;

/// <summary>Random takes, waits, cancellations and settlements over several routes against a model of who has what.</summary>
[Trait("Figures", "more in .ci/run and at night")]
public sealed class SharedCapacityModelTests
{
    private const int MaxBytes = 500;
    private const int Steps = 2_000;

    // Who explores schedules takes the time for more of these too.
    private static readonly int Rounds = Environment.GetEnvironmentVariable("BATCHKIT_TEST_SEEDS") is null ? 8 : 300;

    [Fact]
    public void No_part_is_taken_by_others_no_more_is_taken_than_there_is_and_every_wait_has_its_turn()
    {
        // What a writer does after its wait runs where the test runs it.
        SynchronizationContext.SetSynchronizationContext(null);
        for (var seed = 0; seed < Rounds; seed++)
            new Run(seed).Play();
    }

    /// <summary>One sequence of steps.</summary>
    private sealed class Run
    {
        private readonly int _seed;
        private readonly Random _random;
        private readonly QueuedScheduler _scheduler = new();
        private readonly ByteBudget _budget;
        private readonly long _own;

        // What each part's writers have.
        private readonly List<int>[] _taken;
        private readonly List<Wait> _waits = [];
        private readonly int _greedy;
        private long[] _lastHeld = [];

        public Run(int seed)
        {
            (_seed, _random) = (seed, new Random(seed));
            var routes = _random.Next(1, 4);
            var capacity = 1_200 * (routes + 1);
            _budget = new ByteBudget(capacity, routes, _scheduler, dropsOldest: false);
            _own = routes == 1 ? capacity : capacity / 2 / (routes + 1);
            _greedy = _random.Next(_budget.Parts.Length);
            _taken = [.. _budget.Parts.Select(static _ => new List<int>())];
        }

        public void Play()
        {
            for (var step = 0; step < Steps; step++)
            {
                Step();
                Finish();
                Settle(_greedy);
                TakeAll(_greedy);
                Finish();
            }

            // Nothing more is written, so each writer that waits gets its turn.
            while (_taken.Any(static bytes => bytes.Count > 0))
            {
                for (var part = 0; part < _taken.Length; part++)
                    Settle(part);
                Finish();
            }

            Assert.True(_waits.Count == 0, $"Seed {_seed}: {_waits.Count} writers wait for ever.");
        }

        private void Step()
        {
            var (part, bytes) = (_random.Next(_taken.Length), _random.Next(8) == 0 ? _random.Next(1, MaxBytes) : _random.Next(1, 60));
            switch (_random.Next(10))
            {
                case < 5:
                    if (_budget.Parts[part].TryReserve(bytes))
                        _taken[part].Add(bytes);
                    else
                        Assert.False(!_budget.Parts[part].HasWaiters && Held(part) + bytes <= _own, $"Seed {_seed}: {bytes} of what part {part} has alone were refused.");
                    break;
                case 5 when part != _greedy || _random.Next(20) == 0:
                    var cancellation = new CancellationTokenSource();
                    _waits.Add(new Wait(part, bytes, _budget.Parts[part].ReserveAsync(bytes, cancellation.Token).AsTask(), cancellation));
                    break;
                case 6 when _waits.Count > 5:
                    _waits[_random.Next(_waits.Count)].Cancellation.Cancel();
                    break;
                case 7 when _budget.Parts[part].TryReserve(bytes):
                    _budget.Parts[part].ReleaseUnused(bytes);
                    break;
                default:
                    Settle(part);
                    break;
            }
        }

        // One route's writers take again at once whatever they can get.
        private void TakeAll(int part)
        {
            while (_budget.Parts[part].TryReserve(50))
                _taken[part].Add(50);
        }

        private void Settle(int part)
        {
            if (_taken[part].Count == 0)
                return;
            var index = _random.Next(_taken[part].Count);
            var bytes = _taken[part][index];
            _taken[part].RemoveAt(index);
            _budget.Parts[part].Release(bytes);
        }

        private void Finish()
        {
            while (_scheduler.Waiting > 0)
                _scheduler.Run(0);
            foreach (var wait in _waits.Where(static wait => wait.Task.IsCompletedSuccessfully))
                _taken[wait.Part].Add(wait.Bytes);
            _waits.RemoveAll(static wait => wait.Task.IsCompleted);
            Check();
        }

        private void Check()
        {
            var held = Enumerable.Range(0, _taken.Length).Select(Held).ToArray();
            Assert.Equal(held, _budget.Parts.Select(static part => part.Reserved));
            var shared = held.Sum(SharedOf);
            Assert.Equal(_budget.SharedCapacity - shared, _budget.SharedLeft);
            Assert.True(_budget.SharedLeft >= 0, $"Seed {_seed}: more than the shared half is taken.");
            foreach (var front in _waits.GroupBy(static wait => wait.Part).Select(static waits => waits.First()))
                CheckFront(front, held);
            _lastHeld = held;
        }

        private void CheckFront(Wait front, long[] held)
        {
            Assert.False(held[front.Part] + front.Bytes <= _own, $"Seed {_seed}: the writer at the front of part {front.Part} waits for {front.Bytes} bytes that it has alone.");
            // Only its own route can make place for it, so what others take is nothing to it.
            if (held[front.Part] + front.Bytes > _own + _budget.SharedCapacity)
                front.TakenByOthers = 0;
            else if (front.IsFirst)
                front.TakenByOthers += Enumerable.Range(0, held.Length).Where(part => part != front.Part).Sum(part => Math.Max(0, SharedOf(held[part]) - SharedOf(_lastHeld[part])));
            front.IsFirst = true;
            // In each turn, a writer and those who pass it.
            Assert.True(front.TakenByOthers <= 2 * MaxBytes * held.Length, $"Seed {_seed}: others took {front.TakenByOthers} shared bytes before a writer that waits.");
        }

        private long SharedOf(long bytes) => Math.Max(0, bytes - _own);

        private long Held(int part) => _taken[part].Sum(static bytes => (long)bytes);
    }

    private sealed record Wait(int Part, int Bytes, Task Task, CancellationTokenSource Cancellation)
    {
        /// <summary>True once it was seen at the front of its part.</summary>
        public bool IsFirst { get; set; }

        public long TakenByOthers { get; set; }
    }
}
