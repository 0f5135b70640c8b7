using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>What holds output back for a limited time: a scope with a limit, or a partition that lingers.</summary>
internal interface ITimedHold
{
    /// <summary>Its place in the hold queue, counted from one; zero while it is not in it. Guarded by the queue's lock.</summary>
    int HoldPlace { get; set; }

    /// <summary>Queues what is due. Called on a timer's thread, under no lock.</summary>
    void OnDue();
}

/// <summary>The holds that end at a set time, the earliest first, with one timer for all.</summary>
internal sealed class HoldQueue : IAsyncDisposable
{
    private const int MinHolds = 16;
    private const int ShrinkFactor = 4;
    private const long Never = long.MaxValue;

    // The end of a hold takes microseconds, unless foreign code blocks it: a transport that sends inline, or an encoder. After this time the other holds end on another thread.
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(50);

    private readonly ITimer _timer;

    // Guarded by _gate, which may be taken inside a handle's lock. A binary heap whose holds know their places, so that a hold can leave before it is due.
    private readonly Lock _gate = new();
    private Entry[] _heap = new Entry[MinHolds];
    private int _count;
    private long _lastNumber;
    private long _armedFor = Never;
    private bool _isDisposed;

    public HoldQueue(BufferClock clock)
    {
        Clock = clock;
        _timer = clock.CreateTimer(static state => ((HoldQueue)state!).OnTimer(), this);
    }

    // Holds that end at the same time end in the order in which that time was set: an ambient scope's before those of its handles.
    private readonly record struct Entry(ITimedHold Hold, long Due, long Number)
    {
        public bool IsBefore(in Entry other) => Due != other.Due ? Due < other.Due : Number < other.Number;
    }

    public BufferClock Clock { get; }

    /// <summary>Adds a hold. One that is in the queue already ends at the earlier of both times.</summary>
    /// <param name="hold">What ends.</param>
    /// <param name="due">When, as a stamp of the clock.</param>
    public void Add(ITimedHold hold, long due)
    {
        lock (_gate)
        {
            if (_isDisposed)
                return;
            var place = hold.HoldPlace;
            if (place == 0)
                place = AddLast();
            else if (_heap[place].Due <= due)
                return;
            MoveUp(place, new Entry(hold, due, ++_lastNumber));
            if (due < _armedFor)
                Arm(due);
        }
    }

    /// <summary>Removes a hold, if it is in the queue. The timer stays armed: setting it at every removal would cost more than one early look.</summary>
    public void Remove(ITimedHold hold)
    {
        lock (_gate)
        {
            if (hold.HoldPlace != 0)
                RemoveAt(hold.HoldPlace);
        }
    }

    public ValueTask DisposeAsync()
    {
        lock (_gate)
        {
            _isDisposed = true;
            while (_count > 0)
                RemoveAt(_count);
        }

        return Clock.EndAsync(_timer);
    }

    private void OnTimer()
    {
        while (TakeDue() is { } hold)
            hold.OnDue();
    }

    // A timer may fire early (.NET's do, by up to 3 ms), so it is armed again for the rest.
    private ITimedHold? TakeDue()
    {
        lock (_gate)
        {
            _armedFor = Never;
            if (_count == 0)
                return null;
            var next = _heap[1];
            if (Clock.Until(next.Due) <= TimeSpan.Zero)
            {
                RemoveAt(1);
                if (_count > 0)
                    Arm(Clock.After(Patience));
                return next.Hold;
            }

            Arm(next.Due);
            return null;
        }
    }

    private void Arm(long due)
    {
        _armedFor = due;
        var time = Clock.Until(due);
        _timer.Change(time > TimeSpan.Zero ? WholeMilliseconds.Of(time) : TimeSpan.Zero, Timeout.InfiniteTimeSpan);
    }

    private int AddLast()
    {
        if (++_count == _heap.Length)
            Array.Resize(ref _heap, _count * 2);
        return _count;
    }

    private void RemoveAt(int place)
    {
        _heap[place].Hold.HoldPlace = 0;
        var last = _heap[_count];
        _heap[_count--] = default;
        if (place <= _count && place > 1 && last.IsBefore(_heap[place / 2]))
            MoveUp(place, last);
        else if (place <= _count)
            MoveDown(place, last);
        if (_count < _heap.Length / ShrinkFactor && _heap.Length > MinHolds)
            Array.Resize(ref _heap, _heap.Length / 2);
    }

    private void MoveUp(int place, Entry entry)
    {
        for (; place > 1 && entry.IsBefore(_heap[place / 2]); place /= 2)
            Put(place, _heap[place / 2]);
        Put(place, entry);
    }

    private void MoveDown(int place, Entry entry)
    {
        for (var child = place * 2; child <= _count; child = place * 2)
        {
            if (child < _count && _heap[child + 1].IsBefore(_heap[child]))
                child++;
            if (!_heap[child].IsBefore(entry))
                break;
            Put(place, _heap[child]);
            place = child;
        }

        Put(place, entry);
    }

    private void Put(int place, Entry entry)
    {
        _heap[place] = entry;
        entry.Hold.HoldPlace = place;
    }
}
