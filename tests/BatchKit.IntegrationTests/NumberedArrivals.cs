using System.Buffers.Text;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests;

/// <summary>A last hop that checks the messages of each handle, which say their numbers: 0, 1, 2 and so on, each once. What differs it keeps.</summary>
internal sealed class NumberedArrivals : IBatchTransport
{
    // Guards everything below.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, long> _next = [];
    private readonly List<Gap> _gaps = [];
    private readonly List<long> _repeats = [];
    private readonly HashSet<(OutputHandle Handle, long Number)> _late = [];
    private TaskCompletionSource _arrived = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _count;

    public bool SendsWithoutBlocking => true;

    /// <summary>How many different messages came, without those that a gap has left out.</summary>
    public long Count => Read(() => _count);

    /// <summary>How many messages came again.</summary>
    public int Repeats => Read(() => _repeats.Count);

    /// <summary>The farthest that a message was behind the newest of its handle when it came again; 1 is the newest itself.</summary>
    public long OldestRepeat => Read(() => _repeats.DefaultIfEmpty().Max());

    /// <summary>How many of the numbers that were passed over came later.</summary>
    public int Late => Read(() => _late.Count);

    /// <summary>Numbers that were passed over.</summary>
    public IReadOnlyList<Gap> Gaps => Read(() => _gaps.ToArray());

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        TaskCompletionSource arrived;
        lock (_lock)
        {
            foreach (var batch in batches.Span)
            {
                foreach (var message in batch)
                    Take(batch.Handle, message.Payload.Span);
            }

            arrived = _arrived;
            _arrived = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        arrived.SetResult();
        return ValueTask.CompletedTask;
    }

    /// <summary>The number that the next message of a handle should have.</summary>
    public long NextOf(OutputHandle handle) => Read(() => _next.GetValueOrDefault(handle));

    /// <summary>Waits until so many different messages came; each further one puts the deadline off.</summary>
    public Task WaitForCountAsync(long count) => WaitForAsync(() => Count, count);

    /// <summary>Waits until a handle's messages before this number came; each further message of any handle puts the deadline off.</summary>
    public Task WaitForNextAsync(OutputHandle handle, long number) => WaitForAsync(() => NextOf(handle), number);

    private async Task WaitForAsync(Func<long> find, long wanted)
    {
        while (true)
        {
            var arrived = Read(() => _arrived.Task);
            var found = find();
            if (found >= wanted)
                return;
            if (await Task.WhenAny(arrived, Task.Delay(Deadline.Time)) != arrived)
                throw new TimeoutException($"{found} of {wanted} messages arrived, and then no more before the deadline.");
        }
    }

    private void Take(OutputHandle handle, ReadOnlySpan<byte> payload)
    {
        if (!Utf8Parser.TryParse(payload, out long number, out _))
            throw new InvalidDataException("A message has no number.");
        var next = _next.GetValueOrDefault(handle);
        if (number < next)
        {
            _repeats.Add(next - number);
            if (_gaps.Exists(gap => gap.Handle == handle && number >= gap.First && number < gap.End))
                _late.Add((handle, number));
            return;
        }

        if (number > next)
            _gaps.Add(new Gap(handle, next, number));
        _next[handle] = number + 1;
        _count++;
    }

    private T Read<T>(Func<T> read)
    {
        lock (_lock)
            return read();
    }

    /// <summary>Numbers of a handle that did not come before a later one did.</summary>
    /// <param name="Handle">The handle.</param>
    /// <param name="First">The first of them.</param>
    /// <param name="End">The number that came instead.</param>
    internal readonly record struct Gap(OutputHandle Handle, long First, long End)
    {
        public long Count => End - First;
    }
}
