using System.Buffers.Text;
using System.Diagnostics;
using System.Globalization;
using System.Text;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>Numbered messages on one path through PostgreSQL: which were acknowledged, and in which order they arrived. It is the handler or the transport at the path's end.</summary>
internal sealed class NumberedFlow(string name, int keys) : IMessageHandler<QueueMessage>, IBatchTransport
{
    private const int MessagesPerScope = 5;

    // So that a path goes on for as long as its servers do, and what waits is handled soon.
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(2);

    private readonly MessageHeader[] _headers = [.. Enumerable.Range(0, keys).Select(key => new MessageHeader { Key = $"key {key}" })];

    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly List<long> _arrived = [];
    private readonly HashSet<long> _different = [];
    private long _lastAt = Stopwatch.GetTimestamp();
    private TimeSpan _longestPause;

    private long _acknowledged;

    public OutputHandle Handle { get; } = OutputHandle.Named(name);

    /// <summary>How many messages were acknowledged: those with the numbers below.</summary>
    public long Acknowledged => Interlocked.Read(ref _acknowledged);

    /// <summary>How many different messages have arrived.</summary>
    public int Count => Read(() => _different.Count);

    /// <summary>All arrivals, in their order.</summary>
    public long[] Arrived => Read(() => _arrived.ToArray());

    /// <summary>The acknowledged messages that have not arrived.</summary>
    public long[] Missing => Read(() => Numbers.Where(number => !_different.Contains(number)).ToArray());

    public bool SendsWithoutBlocking => true;

    public int MaxMessageBytes => int.MaxValue;

    private IEnumerable<long> Numbers => Enumerable.Range(0, (int)Acknowledged).Select(static number => (long)number);

    /// <summary>Writes scope after scope, each awaited until it is acknowledged, until told to stop.</summary>
    public async Task WriteUntilAsync(OutputBuffer output, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            await WriteAsync(output);
            await Task.Delay(Pause, CancellationToken.None);
        }
    }

    /// <summary>Waits until so many different messages more have arrived.</summary>
    public Task WaitForMoreAsync(int messages)
    {
        var wanted = Count + messages;
        return Until.TrueAsync(() => Task.FromResult(Count >= wanted), () => Task.FromResult((long)Count));
    }

    /// <summary>Waits until all that was acknowledged has arrived; each arrival extends the deadline.</summary>
    public Task WaitForAllAsync() => Until.TrueAsync(() => Task.FromResult(Count >= Acknowledged), () => Task.FromResult((long)Count));

    /// <summary>Returns the longest pause between two arrivals since the last call, and begins again.</summary>
    public TimeSpan TakeLongestPause() => Read(() =>
    {
        Note();
        var longest = _longestPause;
        _longestPause = TimeSpan.Zero;
        return longest;
    });

    public void AssertAllArrived() => Assert.Empty(Missing);

    /// <summary>Checks that each acknowledged message has arrived, and that the first arrivals of each key's are in the order in which they were written.</summary>
    public void AssertAllArrivedInOrder()
    {
        AssertAllArrived();
        AssertInOrder();
    }

    /// <summary>Checks that the first arrivals of each key's messages are in the order in which they were written.</summary>
    public void AssertInOrder()
    {
        foreach (var ofKey in Arrived.Distinct().GroupBy(number => number % keys))
            Assert.Equal(ofKey.Order(), ofKey);
    }

    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            foreach (var message in batch)
                Add(message.Payload.Span);
        }

        return ValueTask.CompletedTask;
    }

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        lock (_lock)
        {
            foreach (var batch in batches.Span)
            {
                foreach (var message in batch)
                    Add(message.Payload.Span);
            }
        }

        return ValueTask.CompletedTask;
    }

    private async Task WriteAsync(OutputBuffer output)
    {
        var next = Acknowledged;
        await using (output.BeginBufferingScope(Handle))
        {
            for (var count = 0; count < MessagesPerScope; count++, next++)
                output.Write(Handle, Encoding.ASCII.GetBytes(next.ToString(CultureInfo.InvariantCulture)), _headers[next % keys]);
        }

        Interlocked.Exchange(ref _acknowledged, next);
    }

    private void Add(ReadOnlySpan<byte> payload)
    {
        if (!Utf8Parser.TryParse(payload, out long number, out _))
            throw new InvalidDataException("A message has no number.");
        _arrived.Add(number);
        _different.Add(number);
        Note();
    }

    private void Note()
    {
        var now = Stopwatch.GetTimestamp();
        if (Stopwatch.GetElapsedTime(_lastAt, now) is var pause && pause > _longestPause)
            _longestPause = pause;
        _lastAt = now;
    }

    private T Read<T>(Func<T> read)
    {
        lock (_lock)
            return read();
    }
}
