using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Dispatch;

/// <summary>The pauses between failed sends.</summary>
public sealed class PauseTests
{
    private static readonly TimeSpan First = TimeSpan.FromSeconds(1);

    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _transport;
    private readonly ManualTimeProvider _clock = new();
    private readonly List<TimeSpan> _pauses = [];
    private long? _failedAt;

    public PauseTests() => _transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);

    [Fact]
    public async Task The_pause_doubles_with_each_failure_up_to_its_limit()
    {
        Fail(sends: 8);
        Pass();
        await using var buffer = Buffer();

        buffer.Write(Some.Connection(), "line 0");
        PassPauses(buffer);

        Assert.Equal(8, _pauses.Count);
        for (var failure = 0; failure < 8; failure++)
        {
            // Each is less by a random part of up to a half.
            var longest = TimeSpan.FromSeconds(Math.Min(1 << failure, 60));
            Assert.InRange(_pauses[failure], longest / 2, longest + (First / 10));
        }
    }

    [Fact]
    public async Task The_pause_starts_again_after_a_send_that_acknowledged_a_batch()
    {
        Fail(sends: 5);
        _transport.Then((_, _) => Fail(new BatchSendException([BatchOutcome.Acknowledged], "One of two arrived.")));
        Fail(sends: 2);
        Pass();
        await using var buffer = Buffer();

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(Some.Connection(), "line 0");
            buffer.Write(Some.Connection(), "line 1");
        }

        PassPauses(buffer);

        Assert.Equal(8, _pauses.Count);
        Assert.InRange(_pauses[4], First * 8, First * 17);
        Assert.InRange(_pauses[5], First / 2, First * 1.1);
        Assert.InRange(_pauses[6], First, First * 2.1);
        Assert.InRange(_pauses[7], First * 2, First * 4.1);
    }

    [Fact]
    public async Task The_pause_starts_again_after_a_send_that_arrived()
    {
        Fail(sends: 5);
        Pass();
        await using var buffer = Buffer();
        buffer.Write(Some.Connection(), "line 0");
        PassPauses(buffer);

        // A write that comes at once would belong to a loop, and be sent by another thread, beside the clock.
        _clock.Advance(First);
        Fail(sends: 1);
        Pass();
        buffer.Write(Some.Connection(), "line 1");
        PassPauses(buffer);

        Assert.InRange(_pauses[5], First / 2, First * 1.1);
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public async Task A_pause_below_a_millisecond_is_not_cut_to_none()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail(sends: 20);
        var shortest = TimeSpan.FromMilliseconds(1);
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = shortest, MaxRetryDelay = shortest }, timeProvider: _clock);

        buffer.Write(Some.Connection(), "line 0");
        for (var sends = 1; sends <= 20; sends++)
        {
            Assert.Equal(sends, transport.Sends);
            _clock.Advance(shortest);
        }

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    private OutputBuffer Buffer() => new(
        _transport,
        new OutputBufferOptions { RetryDelay = First, MaxRetryDelay = TimeSpan.FromMinutes(1), DeliveryTimeout = TimeSpan.FromHours(1), SendTimeout = TimeSpan.FromHours(1) },
        timeProvider: _clock);

    // The clock's own thread sends again, so each step of it is done when it returns.
    private void PassPauses(OutputBuffer buffer)
    {
        for (var step = 0; step < 10_000 && buffer.GetStatistics().PendingMessages > 0; step++)
            _clock.Advance(First / 20);
    }

    private void Fail(int sends)
    {
        for (var send = 0; send < sends; send++)
            _transport.Then((_, _) => Fail(new IOException("The script says that this send fails.")));
    }

    private void Pass() => _transport.Then((batches, cancellationToken) =>
    {
        NoteTime();
        return _arrived.SendAsync(batches, cancellationToken);
    });

    private ValueTask Fail(Exception failure)
    {
        NoteTime();
        _failedAt = _clock.GetTimestamp();
        return ValueTask.FromException(failure);
    }

    private void NoteTime()
    {
        if (_failedAt is { } failedAt)
            _pauses.Add(_clock.GetElapsedTime(failedAt));
        _failedAt = null;
    }
}
